# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the meaning of two spec texts: the guard before `--fix` writes a file.

The guard ignores the kind that a repair states. It parses both texts and resolves each key and each
value to its only possible meaning (`spec/respelling.py`). Every remaining difference is a change to
the run.
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
    """A field whose value differs in the second text."""

    path: Path
    before: Any
    """The value in the first text; `None` if the field is not set."""
    after: Any
    """The value in the second text; `None` if the field is not set."""

    @property
    def field(self) -> str:
        """The dotted name of the field."""
        return dotted(self.path)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A value that is not a section, or an empty section."""

    path: Path
    value: Any
    written: str
    """The value as written in the file."""


def differences(before: str, after: str) -> list[Difference]:
    """Return how the second text's run differs from the first's; both must be valid YAML."""
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
    """Return every value in a spec, by the only field that its key can mean.

    Two keys for one field contradict each other. Both are kept, so that both appear as differences.
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
    """Yield the values below a section, except empty ones."""
    if isinstance(value, dict):
        for key, below in value.items():
            place = (*path, key)
            # The meaning of a key may depend on its value, such as the location of initial weights.
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
    """Return the written values with a key replaced by its meaning."""
    if place == meant:
        return written
    size = len(place)
    return {(*meant, *path[size:]): text for path, text in written.items() if path[:size] == place}


def _scalars(node: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield every scalar as written in the file."""
    if isinstance(node, MappingNode):
        for key, below in node.value:
            yield from _scalars(below, (*path, key.value))
    elif isinstance(node, SequenceNode):
        for number, below in enumerate(node.value):
            yield from _scalars(below, (*path, number))
    elif isinstance(node, ScalarNode):
        yield path, node.value
