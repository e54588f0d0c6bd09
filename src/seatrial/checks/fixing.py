# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Overrides written into the text of a spec: comments, order and quotes stay as they are."""

import io
import re
from collections.abc import Iterable
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from seatrial.spec.overrides import OVERRIDE
from seatrial.spec.tree import parse

_PART = re.compile(r"[A-Za-z_][\w-]*|\d+", re.ASCII)
_WIDEST = 1 << 20
"""Long lines stay long: a spec is not wrapped anew."""


def applied(text: str, overrides: Iterable[str]) -> str:
    """The text of a spec with overrides in it; a field that is set to null is removed."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDEST
    yaml.indent(mapping=2, sequence=4, offset=2)
    root = yaml.load(text)
    for override in overrides:
        key, _, written = override.partition("=")
        path = [int(part) if part.isdigit() else part for part in _PART.findall(key)]
        value = parse(written, OVERRIDE)[0].plain()
        _set(root, path, value)
    out = io.StringIO()
    yaml.dump(root, out)
    return out.getvalue()


def _set(root: Any, path: list[str | int], value: Any) -> None:
    """Put a value at a path, making sections on the way; nothing and empty sections are removed."""
    node = root
    for key in path[:-1]:
        below = node[key] if isinstance(key, int) else node.get(key)
        if below is None:
            below = CommentedMap()
            node[key] = below
        node = below
    last = path[-1]
    if value is None or value == {}:
        if isinstance(node, dict):
            node.pop(last, None)
        return
    there = node.get(last) if isinstance(node, dict) else None
    if isinstance(there, dict) and isinstance(value, dict) and set(value) & set(there):
        # A section that stays in part keeps its lines and their comments.
        for gone in set(there) - set(value):
            del there[gone]
        there.update({key: _in_one_line(v) for key, v in value.items() if there.get(key) != v})
        return
    node[last] = _in_one_line(value)


def _in_one_line(value: Any) -> Any:
    """A section or a list as it is written in one line."""
    if isinstance(value, dict):
        section = CommentedMap((key, _in_one_line(below)) for key, below in value.items())
        section.fa.set_flow_style()
        return section
    if isinstance(value, list):
        items = CommentedSeq(_in_one_line(below) for below in value)
        items.fa.set_flow_style()
        return items
    return value
