# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's options as its parser defines them: names, types and choices."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from seatrial.spec.engine import OptionValue

VERSION = "0.19.2"
"""The megatron-core version of the options."""


class Takes(StrEnum):
    """The values that follow an option on the command line."""

    SWITCH = "switch"
    """No value: the option is present or absent."""
    TOGGLE = "toggle"
    """No value: the option is present, or its counterpart with the prefix `no-`."""
    VALUE = "value"
    """One value."""
    LIST = "list"
    """Any number of values."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option in the engine's parser."""

    takes: Takes
    kind: str = "any"
    """The type of the option's values: one of `KINDS`, or any."""
    choices: tuple[str, ...] = ()
    """The allowed values; empty if they are not listed."""

    def value_fix(self, value: OptionValue) -> str:
        """Return how to fix a value; empty if the engine's parser accepts it."""
        if self.takes in (Takes.SWITCH, Takes.TOGGLE):
            return "" if isinstance(value, bool) else "Use true or false."
        if isinstance(value, bool):
            return "Use a value instead of true or false."
        if self.takes is Takes.VALUE and isinstance(value, tuple):
            return "Use one value instead of a list."
        for word in value if isinstance(value, tuple) else (value,):
            if self.choices and str(word) not in self.choices:
                return f"Use one of: {', '.join(self.choices)}."
            if self.kind in KINDS and not KINDS[self.kind].fullmatch(str(word)):
                return FIXES[self.kind]
        return ""


_INT, _FLOAT = r"\s*[+-]?\d+(_\d+)*\s*", r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
KINDS = {
    "int": re.compile(_INT),
    "float": re.compile(rf"{_FLOAT}|\s*[+-]?(inf(inity)?|nan)\s*", re.IGNORECASE),
    "ints": re.compile(rf"[()]*{_INT}(,{_INT})*[()]*"),
    "pattern": re.compile(rf"{_INT}|(?=.*\[)[\[\]()+*,\d\s]+"),
}
"""The pattern of each type's values on a command line."""
FIXES = {
    "int": "Use an integer.",
    "float": "Use a number.",
    "ints": "Use comma-separated integers, such as '512,0'.",
    "pattern": "Use an integer, or a pattern such as '([0]*3+[1]*1)*2'.",
}


@cache
def known_options() -> dict[str, Option]:
    """Return every engine option, from the list that was extracted from the engine's parser."""
    text = (Path(__file__).parent / "options.txt").read_text()
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, takes, *rest = line.split()
            choices = tuple(rest[1].split(",")) if len(rest) > 1 else ()
            found[name] = Option(Takes(takes), rest[0] if rest else "any", choices)
    return found
