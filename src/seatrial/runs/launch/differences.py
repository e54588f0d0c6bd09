# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The differences between two values of plain data, field by field."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.secrets.redaction import name_in, redact_entry, redact_tree

ABSENT = object()
"""Marks a missing field, because None is a value."""
_LONGEST = 120
"""The maximum length of a printed value."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    path: str
    """The field, such as `spec.template.spec.containers[pytorch].image`."""
    before: Any
    """The old value. ABSENT if the field is new."""
    after: Any
    """The new value. ABSENT if the field is removed."""

    def __str__(self) -> str:
        """`training.tokens: 10 → 20`, `+ path: value`, or `- path: value`."""
        if self.before is ABSENT:
            return f"+ {self.path}: {_shown(self.after)}"
        if self.after is ABSENT:
            return f"- {self.path}: {_shown(self.before)}"
        return f"~ {self.path}: {_shown(self.before)} → {_shown(self.after)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain data, without a side that is absent."""
        sides = {"before": self.before, "after": self.after}
        return {"path": self.path} | {k: v for k, v in sides.items() if v is not ABSENT}


def differences(before: Any, after: Any, path: str = "") -> list[FieldDifference]:
    """Return every leaf that differs, in the order of the fields."""
    return list(_walk(before, after, path))


def _walk(before: Any, after: Any, path: str, name: str = "") -> Iterator[FieldDifference]:
    """Yield the leaves that differ, redacted. `name` is the key under which the value is stored."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            place = f"{path}.{key}" if path else str(key)
            name = name_in(after if key in after else before, key)
            yield from _walk(before.get(key, ABSENT), after.get(key, ABSENT), place, name)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _walk_lists(before, after, path, name)
    elif before is ABSENT or after is ABSENT or before != after:
        yield FieldDifference(path, redact_tree(before, name), redact_tree(after, name))


def _walk_lists(
    before: list[Any], after: list[Any], path: str, name: str
) -> Iterator[FieldDifference]:
    """Compare entries by name if they have one, otherwise by index."""
    old, new = _by_name(before), _by_name(after)
    for key in dict.fromkeys((*old, *new)):
        one, other = old.get(key, ABSENT), new.get(key, ABSENT)
        if (
            isinstance(key, int)
            and one != other
            and (isinstance(one, str) or isinstance(other, str))
        ):
            # An argument may be a secret because of the argument before it.
            one = redact_entry(before, key, name) if key in old else ABSENT
            other = redact_entry(after, key, name) if key in new else ABSENT
            yield FieldDifference(f"{path}[{key}]", one, other)
        else:
            yield from _walk(one, other, f"{path}[{key}]", name)


def _by_name(entries: list[Any]) -> dict[str | int, Any]:
    """Return the entries by name if all names are unique, otherwise by index."""
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return {str(name): entry for name, entry in zip(names, entries, strict=True)}
    return dict(enumerate(entries))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
