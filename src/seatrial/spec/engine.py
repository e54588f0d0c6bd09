# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine section: the training engine, and options that the spec does not model."""

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
    """Check that the value is a boolean, a number, a string, or a list of numbers and strings."""
    items = value if isinstance(value, list | tuple) else (value,)
    if all(isinstance(x, int | str) or (isinstance(x, float) and isfinite(x)) for x in items):
        return tuple(value) if isinstance(value, list | tuple) else value
    raise broken(
        f"an engine option is a boolean, a number, a string or a list, not {shown(value)}.",
        "Write a value such as true, 8, cosine or [1, 2].",
        SpecCode.TYPE,
    )


def _option_name(name: str) -> str:
    """Check that the name is an engine option's name, without leading dashes."""
    if not _OPTION.fullmatch(name):
        bare = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        usable = _OPTION.fullmatch(bare) and len(bare) < 60
        fix = f"Write {bare}." if usable else "Write the option's name in the engine."
        raise broken(f"{shown(name)} is not a valid option name.", fix, SpecCode.TYPE)
    return name


OptionName = Annotated[str, AfterValidator(_option_name)]
OptionValue = Annotated[
    bool | int | float | str | tuple[int | float | str, ...],
    BeforeValidator(_option),
    WithJsonSchema({"type": ["boolean", "number", "string", "array"]}),
]
"""The value of an engine option: a boolean, a number, a string, or a list of these."""


class EngineName(StrEnum):
    """The training engines that a run can use."""

    MEGATRON = "megatron"
    """Megatron-LM's own training loop, from the megatron-core package."""
    LLM_FOUNDRY = "llm-foundry"
    """MosaicML's LLM Foundry (Composer, FSDP)."""


DEFAULT_ENGINE = str(EngineName.MEGATRON)
"""The engine of a spec that does not set one."""
ENGINE_CLASSES: dict[str, str] = {
    EngineName.MEGATRON: "seatrial.engines.megatron.engine:MegatronEngine",
    EngineName.LLM_FOUNDRY: "seatrial.engines.llm_foundry.engine:LlmFoundryEngine",
}
"""The class of each engine as `module:class`, by its name in a spec.

`engines/registry.py` has the engines themselves. The classes are strings here, so that only a run
that uses an engine imports it, and so that layers below the engines can call the engine that a spec
names (`engine_named`)."""


def engine_named(name: str) -> Any:
    """Return the engine with that name, importing it on first use; KeyError if there is none."""
    return instance_of(ENGINE_CLASSES[name])


@cache
def instance_of(path: str) -> Any:
    """Return the only instance of the class at `module:class`."""
    return class_at(path)()


def class_at(path: str) -> Any:
    """Import the class at `module:class`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _registered(name: Any, shipped: ValidatorFunctionWrapHandler) -> str:
    """Accept any registered engine; the error for other names lists the shipped engines."""
    if isinstance(name, str) and name in ENGINE_CLASSES and name not in EngineName:
        return name
    return shipped(name)  # type: ignore[no-any-return]


class EngineSpec(SpecModel):
    """The training engine and its options."""

    name: Annotated[EngineName, WrapValidator(_registered), PlainSerializer(str)] = (
        EngineName.MEGATRON
    )
    """The training engine."""
    options: Mapping[OptionName, OptionValue] = {}
    """Engine options that no other field covers, by option name without leading dashes."""
