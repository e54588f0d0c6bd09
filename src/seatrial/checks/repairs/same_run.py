# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare two texts of a spec by what they mean: the guard before `--fix` writes a file.

It does not ask what a repair claims to be. Both texts are read, each key is taken for the field
that it can only mean, and each value for what it can only mean (`spec/respelling.py`). Whatever is
different then, added or gone is a change of the run.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from seatrial.spec.respelling import key_meant, same_value, value_meant
from seatrial.spec.tree import Path, dotted, parse


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that says something else in the second text."""

    path: Path
    before: Any
    """What the first text says; `None` if nothing."""
    after: Any
    """What the second text says; `None` if nothing."""

    @property
    def field(self) -> str:
        """The field as a user writes it."""
        return dotted(self.path)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A value that is no section, or an empty one."""

    path: Path
    value: Any
    written: str
    """The value as the file has it."""


def differences(before: str, after: str) -> list[Difference]:
    """What the second text of a spec changes of the run in the first; both have to be YAML."""
    old, new = _meanings(before), _meanings(after)
    found = []
    for path in dict.fromkeys((*old, *new)):
        first, second = old.get(path), new.get(path)
        if first and second and same_value(path, first.value, second.value, first.written):
            continue
        was = first.value if first else None
        found.append(Difference(path, was, second.value if second else None))
    return found


def _meanings(text: str) -> dict[Path, _Leaf]:
    """Every value of a spec by the field that its key can only mean.

    Two keys for one field contradict each other: both are kept, so that neither can go unnoticed.
    """
    written = dict(_scalars(YAML(typ="safe", pure=True).compose(io.StringIO(text)), ()))
    found: dict[Path, _Leaf] = {}
    for leaf in _leaves(parse(text, "")[0].plain(), (), written):
        path = leaf.path
        while path in found:
            path = (*path, "again")
        found[path] = leaf
    return found


def _leaves(value: Any, path: Path, written: dict[Path, str]) -> Iterator[_Leaf]:
    """The values below a section; one that is empty says nothing."""
    if isinstance(value, dict):
        for key, below in value.items():
            place = (*path, key)
            # The key's meaning may depend on its value, such as the place of initial weights.
            meant = key_meant(place, below) or place
            yield from _leaves(below, meant, _moved(written, place, meant))
    elif isinstance(value, list) and value:
        for number, below in enumerate(value):
            yield from _leaves(below, (*path, number), written)
    elif value is not None:
        section = value_meant(path, value) if not isinstance(value, list) else None
        if isinstance(section, dict):
            for key, below in section.items():
                yield _Leaf((*path, key), below, written.get(path, ""))
        else:
            yield _Leaf(path, value, written.get(path, ""))


def _moved(written: dict[Path, str], place: Path, meant: Path) -> dict[Path, str]:
    """What is written below a place, under the name that its key means."""
    if place == meant:
        return written
    size = len(place)
    return {(*meant, *path[size:]): text for path, text in written.items() if path[:size] == place}


def _scalars(node: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every scalar as the file has it."""
    if isinstance(node, MappingNode):
        for key, below in node.value:
            yield from _scalars(below, (*path, key.value))
    elif isinstance(node, SequenceNode):
        for number, below in enumerate(node.value):
            yield from _scalars(below, (*path, number))
    elif isinstance(node, ScalarNode):
        yield path, node.value
