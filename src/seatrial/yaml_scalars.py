# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Values as YAML scalars that every parser, of YAML 1.1 and 1.2, reads back unchanged.

Everybody who writes YAML quotes by these rules.
"""

import json
import re
from typing import Any

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
"""Texts that need no quotes, unless they are among NOT_TEXT."""
NOT_TEXT = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words, in lower case, that some parser takes for something other than text."""
_HALVES = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")


def scalar(value: Any, plain: re.Pattern[str] = PLAIN) -> str:
    """Return a text, a number, a truth value or something empty in one line.

    A text that matches `plain` stands without quotes, unless some parser takes it for another type.
    """
    if isinstance(value, str):
        is_plain = plain.fullmatch(value) is not None and value.lower() not in NOT_TEXT
        return str(value) if is_plain else quoted(value)
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _number(value: float) -> str:
    """A number with a point: parsers of YAML 1.1 take 1e-08 for a text."""
    text = json.dumps(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else text


def quoted(text: str, *, ascii_only: bool = True) -> str:
    """Return the text in double quotes; in ASCII, because YAML allows fewer characters than JSON.

    JSON writes a character beyond 16 bits as two halves, which YAML does not put together. What is
    not in ASCII may stay as it is in a file that a person reads and has written so.
    """
    return _HALVES.sub(_whole, json.dumps(text, ensure_ascii=ascii_only))


def _whole(halves: re.Match[str]) -> str:
    return f"\\U{ord(json.loads(f'"{halves[0]}"')):08x}"
