# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What differs between two pieces of plain data, field by field."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ABSENT = object()
"""Stands for a field that is not there; nothing itself is a value."""
_LONGEST = 120
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs."""

    path: str
    """The field, such as `spec.template.spec.containers[pytorch].image`."""
    before: Any
    """What it was; ABSENT when it was not there."""
    after: Any
    """What it would be; ABSENT when it would be gone."""

    def __str__(self) -> str:
        """`training.tokens: 10 → 20`, `+ path: value`, or `- path: value`."""
        if self.before is ABSENT:
            return f"+ {self.path}: {_shown(self.after)}"
        if self.after is ABSENT:
            return f"- {self.path}: {_shown(self.before)}"
        return f"~ {self.path}: {_shown(self.before)} → {_shown(self.after)}"

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain data; a side that is absent is left out."""
        sides = {"before": self.before, "after": self.after}
        return {"path": self.path} | {k: v for k, v in sides.items() if v is not ABSENT}


def differences(before: Any, after: Any, path: str = "") -> list[Difference]:
    """Every leaf that differs, in the order of the fields."""
    return list(_walk(before, after, path))


def _walk(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            place = f"{path}.{key}" if path else str(key)
            yield from _walk(before.get(key, ABSENT), after.get(key, ABSENT), place)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _walk_lists(before, after, path)
    elif before is ABSENT or after is ABSENT or before != after:
        yield Difference(path, before, after)


def _walk_lists(before: list[Any], after: list[Any], path: str) -> Iterator[Difference]:
    """Entries with names are compared by name, others by place."""
    old, new = _by_name(before), _by_name(after)
    for key in dict.fromkeys((*old, *new)):
        yield from _walk(old.get(key, ABSENT), new.get(key, ABSENT), f"{path}[{key}]")


def _by_name(entries: list[Any]) -> dict[str | int, Any]:
    """The entries by their names when each has one of its own, else by their numbers."""
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return {str(name): entry for name, entry in zip(names, entries, strict=True)}
    return dict(enumerate(entries))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
