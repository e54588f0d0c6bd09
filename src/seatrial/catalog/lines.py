# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where an entry and its facts stand in a TOML file; tomllib does not tell."""

import re
from functools import cache
from pathlib import Path

from seatrial.findings import Where

_KEY = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
_HEADER = re.compile(rf"\s*\[\[?\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")
_PART = re.compile(_KEY)


@cache
def _places(file: Path, changed: int) -> dict[tuple[str, ...], int]:
    """The line of every table and fact of a file, by its keys, each where it stands first."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if header := _HEADER.match(line):
            table = path = _parts(header[1])
        elif assignment := _ASSIGNMENT.match(line):
            path = (*table, *_parts(assignment[1]))
        else:
            continue
        for end in range(1, len(path) + 1):
            found.setdefault(path[:end], number)
    return found


def _parts(keys: str) -> tuple[str, ...]:
    """The keys of a dotted key, without their quotes."""
    return tuple(part.strip("\"'") for part in _PART.findall(keys))


def place(file: Path, name: str, field: str, facts: tuple[str | int, ...] = ()) -> Where:
    """The line of a fact, or of the nearest thing around it that the file has; else the first."""
    places = _places(file, file.stat().st_mtime_ns)
    path = (name, *(str(fact) for fact in facts))
    around = (places.get(path[:end], 0) for end in range(len(path), 0, -1))
    return Where(field, str(file), next((line for line in around if line), 1))
