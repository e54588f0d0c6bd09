# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine section: the training engine, and options that the spec does not model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

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


@dataclass(frozen=True, slots=True)
class RegisteredEngine:
    """An engine that a spec can name."""

    class_path: str
    """Its class as `module:class`: only a run that uses an engine imports it, and layers below the
    engines can call the engine of a spec (`engine_named`)."""
    description: str
    """Its meaning in the reference and in the JSON Schema."""


DEFAULT_ENGINE = "megatron"
"""The engine of a spec that does not set one."""
REGISTERED_ENGINES: dict[str, RegisteredEngine] = {
    "megatron": RegisteredEngine(
        "seatrial.engines.megatron.engine:MegatronEngine",
        "Megatron-LM's own training loop, from the megatron-core package.",
    ),
    "llm-foundry": RegisteredEngine(
        "seatrial.engines.llm_foundry.engine:LlmFoundryEngine",
        "MosaicML's LLM Foundry (Composer, FSDP).",
    ),
}
"""The engines by their name in a spec. `engines/registry.py` has the engines themselves."""


def engine_named(name: str) -> Any:
    """Return the engine with that name, importing it on first use; KeyError if there is none."""
    return instance_of(REGISTERED_ENGINES[name].class_path)


@cache
def instance_of(path: str) -> Any:
    """Return the only instance of the class at `module:class`."""
    return class_at(path)()


def class_at(path: str) -> Any:
    """Import the class at `module:class`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _registered(name: Any) -> str:
    """Accept the name of a registered engine. The error lists all of them."""
    if isinstance(name, str) and name in REGISTERED_ENGINES:
        return name
    raise PydanticKnownError("enum", {"expected": ", ".join(REGISTERED_ENGINES)})


_SCHEMA = {
    "description": "; ".join(f"{n}: {one.description}" for n, one in REGISTERED_ENGINES.items()),
    "enum": list(REGISTERED_ENGINES),
    "title": "EngineName",
    "type": "string",
}
type EngineName = Annotated[str, BeforeValidator(_registered), WithJsonSchema(_SCHEMA)]
"""The name of a registered engine. The JSON Schema lists the engines that Seatrial ships."""


class EngineSpec(SpecModel):
    """The training engine and its options."""

    name: EngineName = DEFAULT_ENGINE
    """The training engine."""
    options: Mapping[OptionName, OptionValue] = {}
    """Engine options that no other field covers, by option name without leading dashes."""
