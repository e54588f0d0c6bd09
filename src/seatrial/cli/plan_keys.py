# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The keys that `--what-if` may vary."""

import re
from collections.abc import Sequence

from seatrial.errors import UsageError
from seatrial.spec.explain import meant
from seatrial.spec.fields import field_at, places_named, siblings
from seatrial.spec.synonyms import fields_meant
from seatrial.spec.tree import Path, dotted

_PART = re.compile(r"[^.\[\]]+")


def refuse_undone(keys: Sequence[str], overrides: Sequence[str]) -> None:
    """Refuse a key that sets again what an earlier one or an override has set.

    The later one would win, while the table showed the earlier one's values beside it.
    """
    earlier = [
        (f"the override of {key}", key)
        for key in (override.partition("=")[0] for override in overrides)
    ]
    for key in keys:
        path = _path(key)
        for shown, before in earlier:
            if _path(before)[: len(path)] == path:
                raise UsageError(
                    f"--what-if {key} would undo {shown}. "
                    f"Give {key} once, with all its values: --what-if {key}=V1,V2."
                )
        earlier.append((f"--what-if {key}", key))


def _path(key: str) -> Path:
    """The parts of a key, with the numbers of items."""
    return tuple(int(part) if part.isdigit() else part for part in _PART.findall(key))


def refuse_unknown(key: str) -> None:
    """Refuse a key that no field of a spec has, with those that there are."""
    path = _path(key)
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
