# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every code that Seatrial can report, with its meaning, read from the sources.

The enums of codes lie all over the package, in the worker too, which nothing imports, and above
this layer. Reading them as text asks none of these modules to load, and misses no new one.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_MEMBER = re.compile(
    r'^    [A-Z][A-Z0-9_]* = "(?P<code>ST-[A-Z]+-\d{3})"[^\n]*\n    """(?P<meaning>.*?)"""',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A code with its meaning."""

    code: str
    """The code."""
    meaning: str
    """What it means, in a sentence."""
    part: str
    """The part of Seatrial that reports it: the folder below `seatrial`."""


@cache
def known_codes() -> dict[str, Known]:
    """All codes, in the order of their names."""
    found = {}
    for part, source in _sources():
        for match in _MEMBER.finditer(source):
            meaning = " ".join(match["meaning"].split())
            found[match["code"]] = Known(match["code"], meaning, part)
    return dict(sorted(found.items()))


def _sources() -> list[tuple[str, str]]:
    """The sources of the package that name codes, each with its folder."""
    root = files("seatrial")
    folders = [entry for entry in root.iterdir() if entry.is_dir()]
    return [
        (folder.name, text)
        for folder in folders
        for text in map(_text, _modules(folder))
        if '"ST-' in text
    ]


def _modules(folder: Traversable) -> list[Traversable]:
    """The modules below a folder."""
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _modules(entry)
        elif entry.name.endswith(".py"):
            found.append(entry)
    return found


def _text(module: Traversable) -> str:
    return module.read_text("utf-8")
