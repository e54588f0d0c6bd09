# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine section: which training engine, and options of it that a spec does not model."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from math import isfinite
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from seatrial.codes.spec import SpecCode
from seatrial.spec.base import SpecModel, broken
from seatrial.spec.secrets import shown

_OPTION = re.compile(r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*")


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
    if not _OPTION.fullmatch(name):
        bare = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        usable = _OPTION.fullmatch(bare) and len(bare) < 60
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


DEFAULT_ENGINE = str(EngineName.MEGATRON)
"""The engine of a spec that names none."""
ENGINE_CLASSES: dict[str, str] = {
    EngineName.MEGATRON: "seatrial.engines.megatron.engine:MegatronEngine",
    EngineName.LLM_FOUNDRY: "seatrial.engines.llm_foundry.engine:LlmFoundryEngine",
}
"""The class of each engine by the name in a spec, as module and class: `engines/registry.py` has
the engines themselves. As text, so that an engine is imported only by a run that uses it, and so
that layers below the engines can ask the one that a spec names (`engine_named`)."""


def engine_named(name: str) -> Any:
    """The engine of that name, imported when first asked for; KeyError if there is none."""
    return instance_of(ENGINE_CLASSES[name])


@cache
def instance_of(path: str) -> Any:
    """The one instance of a class that is written as module and class."""
    return class_at(path)()


def class_at(path: str) -> Any:
    """The class that is written as module and class."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _registered(name: Any, shipped: ValidatorFunctionWrapHandler) -> str:
    """A name of the table; the error about any other one lists what is shipped."""
    if isinstance(name, str) and name in ENGINE_CLASSES and name not in EngineName:
        return name
    return shipped(name)  # type: ignore[no-any-return]


class EngineSpec(SpecModel):
    """The engine and its own options."""

    name: Annotated[EngineName, WrapValidator(_registered), PlainSerializer(str)] = (
        EngineName.MEGATRON
    )
    """The training engine."""
    options: Mapping[OptionName, OptionValue] = {}
    """Engine options that no other field covers, by the engine's own name without dashes ahead."""
