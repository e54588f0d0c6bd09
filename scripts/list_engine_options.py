# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the list of the engine's options; run it with a Python that has megatron-core installed.

python scripts/list_engine_options.py > src/seatrial/engines/megatron/options.txt
"""

import argparse
import os
from collections.abc import Callable, Iterator
from enum import Enum
from importlib.metadata import version
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

from megatron.training.arguments import add_megatron_arguments

SWITCHES = (argparse._StoreTrueAction, argparse._StoreFalseAction)
TYPES: dict[object, str] = {int: "int", float: "float", str: "str", None: "str", bool: "any"}
PROBES = {"pattern": ("3", "([0]*3+[1]*1)*2"), "ints": ("3", "512,0")}
"""Words by which types that the engine defines itself are recognised: all of them parse."""


def described() -> dict[str, dict[str, Any]]:
    """Every option of the engine's parser: what it takes, of which type, choices and default."""
    parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False, add_help=False))
    found: dict[str, dict[str, Any]] = {}
    for action in parser._actions:
        choices = [spelled(choice) for choice in action.choices or ()] or _words(action.type)
        one = {
            "takes": _takes(action),
            "kind": "" if action.nargs == 0 else _kind(action.type),
            "choices": choices,
            "default": _plain(action.default),
        }
        names = [name for name in action.option_strings if name.startswith("--")]
        if isinstance(action, argparse.BooleanOptionalAction):
            found |= {name[2:]: one | {"takes": "switch"} for name in names[1:]}
            names = names[:1]
        found |= {name[2:]: one for name in names}
    found.pop("help", None)
    return found


def spelled(value: object) -> str:
    """A choice as the engine's command line takes it: a member of an enum by its name."""
    return value.name if isinstance(value, Enum) else str(value)


def _takes(action: argparse.Action) -> str:
    if isinstance(action, SWITCHES):
        return "switch"
    if isinstance(action, argparse.BooleanOptionalAction):
        return "toggle"
    return "value" if action.nargs is None else "list"


def _kind(type_: Any) -> str:
    """The type of a value; of the engine's own types, what they parse."""
    if type_ in TYPES:
        return TYPES[type_]
    fitting = (kind for kind, words in PROBES.items() if all(_parses(type_, w) for w in words))
    return next(fitting, "any")


def _words(type_: Any) -> list[str]:
    """The words that a type of the engine's own takes, if it compares them or looks them up."""
    code = getattr(type_, "__code__", None)
    if code is None or _kind(type_) != "any":
        return []
    return sorted({word for word in _candidates(type_) if _parses(type_, word)})


def _candidates(type_: Callable[[str], object]) -> Iterator[str]:
    """The words in the code of a function, and the members of the enums that it names."""
    for constant in type_.__code__.co_consts:
        words = constant if isinstance(constant, frozenset | tuple) else (constant,)
        yield from (word for word in words if isinstance(word, str) and " " not in word)
    for name in type_.__code__.co_names:
        found = type_.__globals__.get(name)
        if isinstance(found, type) and issubclass(found, Enum):
            yield from found.__members__


def _parses(type_: Callable[[str], object], word: str) -> bool:
    try:
        type_(word)
    except (ValueError, TypeError, KeyError, AssertionError, argparse.ArgumentTypeError):
        return False
    return True


def _plain(default: object) -> Any:
    """A default as a spec would give it; None where there is none that it could."""
    if isinstance(default, Enum):
        return default.name
    if isinstance(default, list | tuple):
        return [_plain(item) for item in default]
    return default if isinstance(default, bool | int | float | str) else None


def line(option: dict[str, Any]) -> str:
    """What an option takes, of which type, and which values, if they are few."""
    choices = option["choices"]
    plain = all(" " not in choice and "," not in choice for choice in choices)
    words = [option["takes"], option["kind"], ",".join(choices) if plain else ""]
    return " ".join(word for word in words if word)


def main() -> None:
    print(f"# Every option of the argument parser of megatron-core {version('megatron-core')}")
    print("# (megatron.training.arguments, add_megatron_arguments): its name; whether it is a")
    print("# switch, a toggle (it has a twin with no-), or takes a value or a list; of which type;")
    print("# and the choices, if they are few. Made by scripts/list_engine_options.py.")
    for name, option in sorted(described().items()):
        print(name, line(option))


if __name__ == "__main__":
    main()
