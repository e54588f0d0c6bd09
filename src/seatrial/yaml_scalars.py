# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Format values as YAML scalars that YAML 1.1 and 1.2 parsers read back unchanged.

All code that writes YAML uses these quoting rules.
"""

import json
import re
from typing import Any

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
"""Strings that need no quotes, unless they are in NOT_TEXT."""
NOT_TEXT = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Lowercase words that some parsers do not read as strings."""
_HALVES = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")


def scalar(value: Any, plain: re.Pattern[str] = PLAIN) -> str:
    """Format a string, a number, a boolean or an empty collection on one line.

    A string that matches `plain` is not quoted, unless some parsers would read a different type.
    """
    if isinstance(value, str):
        is_plain = plain.fullmatch(value) is not None and value.lower() not in NOT_TEXT
        return str(value) if is_plain else quoted(value)
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _number(value: float) -> str:
    """Format a number with a decimal point: YAML 1.1 reads 1e-08 as a string."""
    text = json.dumps(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else text


def quoted(text: str, *, ascii_only: bool = True) -> str:
    """Quote a string; in ASCII by default, because YAML allows fewer characters than JSON.

    JSON writes a character beyond 16 bits as two surrogates, which YAML does not combine. Files
    that users edit may keep non-ASCII characters.
    """
    return _HALVES.sub(_whole, json.dumps(text, ensure_ascii=ascii_only))


def _whole(halves: re.Match[str]) -> str:
    return f"\\U{ord(json.loads(f'"{halves[0]}"')):08x}"
