# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Text as a YAML scalar that every parser, of YAML 1.1 and 1.2, reads back unchanged."""

import json
import re

NOT_TEXT = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words, in lower case, that some parser takes for something other than text."""
_HALVES = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")


def quoted(text: str) -> str:
    """Return the text in double quotes, in ASCII: YAML allows fewer raw characters than JSON.

    JSON writes a character beyond 16 bits as two halves, which YAML does not put together.
    """
    return _HALVES.sub(_whole, json.dumps(text))


def _whole(halves: re.Match[str]) -> str:
    return f"\\U{ord(json.loads(f'"{halves[0]}"')):08x}"
