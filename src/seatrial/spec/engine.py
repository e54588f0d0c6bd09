# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine section: which training engine, and options of it that a spec does not model."""

import re
from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from seatrial.spec.base import SpecModel, broken
from seatrial.spec.codes import SpecCode
from seatrial.spec.secrets import shown

_OPTION = re.compile(r"^[a-z][a-z0-9]*([-_.][a-z0-9]+)*$")


def _option(value: Any) -> Any:
    """A switch, a number, a text, or a list of numbers and texts."""
    items = value if isinstance(value, list | tuple) else (value,)
    if all(isinstance(x, int | str) or (isinstance(x, float) and isfinite(x)) for x in items):
        return tuple(value) if isinstance(value, list | tuple) else value
    raise broken(
        f"an engine option is a switch, a number, a text or a list of them, not {shown(value)}.",
        "Write for example true, 8, cosine or [1, 2].",
        SpecCode.TYPE,
    )


def _option_name(name: str) -> str:
    """An option's name as the engine has it, without dashes ahead."""
    if not _OPTION.match(name):
        bare = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        usable = _OPTION.match(bare) and len(bare) < 60
        fix = f"Write {bare}." if usable else "Write the engine's own name for it."
        raise broken(f"{shown(name)} is not the name of an option.", fix, SpecCode.TYPE)
    return name


OptionName = Annotated[str, AfterValidator(_option_name)]
OptionValue = Annotated[
    bool | int | float | str | tuple[int | float | str, ...],
    BeforeValidator(_option),
    WithJsonSchema({"type": ["boolean", "number", "string", "array"]}),
]
"""What an engine option can be: a switch, a number, a text, or a list of them."""


class EngineName(StrEnum):
    """The training engines that a run can use."""

    MEGATRON = "megatron"
    """Megatron-LM's own training loop, from the megatron-core package."""
    LLM_FOUNDRY = "llm-foundry"
    """MosaicML's LLM Foundry (Composer, FSDP)."""


class EngineSpec(SpecModel):
    """The engine and its own options."""

    name: EngineName = EngineName.MEGATRON
    """The training engine."""
    options: Mapping[OptionName, OptionValue] = {}
    """Engine options that no other field covers, by the engine's own name without dashes ahead."""
