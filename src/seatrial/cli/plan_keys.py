# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The keys that `--what-if` may vary."""

import re

from seatrial.errors import UsageError
from seatrial.spec.explain import meant
from seatrial.spec.fields import field_at, places_named, siblings
from seatrial.spec.synonyms import fields_meant
from seatrial.spec.tree import Path, dotted

_PART = re.compile(r"[^.\[\]]+")


def refuse_unknown(key: str) -> None:
    """Refuse a key that no field of a spec has, with those that there are."""
    path: Path = tuple(int(part) if part.isdigit() else part for part in _PART.findall(key))
    for depth in range(1, len(path) + 1):
        there = path[:depth]
        found = field_at(there)
        if found is None and not isinstance(there[-1], int):
            raise UsageError(_no_such(key, there))
        if found is not None and found.section is None:
            # What lies below a field that is no section, such as an option of the engine, is the
            # business of whoever reads the spec.
            return


def _no_such(key: str, path: Path) -> str:
    """That a key is none, which was meant, and which there are."""
    around, near, word = dotted(path[:-1]), meant(path), str(path[-1])
    own = [dotted((*path[:-1], near))] if near else []
    # A key of just this name elsewhere, or what others call so, is meant rather than a like one.
    close = places_named(word)[:3] or fields_meant(word) or own
    question = f" Did you mean {' or '.join(close)}?" if close else ""
    section = f"The section {around}" if around else "A spec"
    return (
        f"--what-if {key}: a spec has no such field.{question} {section} has: "
        f"{', '.join(siblings(path))}."
    )
