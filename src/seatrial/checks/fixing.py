# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Overrides written into the text of a spec: whatever they do not change stays as it is."""

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from seatrial.checks.text_edits import Path, UnplacedError, with_key, with_value, without_key
from seatrial.errors import SeatrialError
from seatrial.spec.overrides import OVERRIDE
from seatrial.spec.tree import parse

_PART = re.compile(r"[A-Za-z_][\w-]*|\d+", re.ASCII)
_WIDEST = 1 << 20
"""Long lines stay long: a spec is not wrapped anew."""


def applied(text: str, overrides: Iterable[str]) -> str:
    """The text of a spec with overrides in it; a field that is set to null is removed."""
    changes = [_change(override) for override in overrides]
    wanted = YAML(typ="safe", pure=True).load(text)
    for path, value in changes:
        _set(wanted, path, value)
    try:
        edited = _edited(text, changes)
        if parse(edited, OVERRIDE)[0].plain() == parse(_dumped(wanted), OVERRIDE)[0].plain():
            return edited
    except (UnplacedError, SeatrialError, YAMLError):
        pass
    return _anew(text, changes)


def _change(override: str) -> tuple[Path, Any]:
    """The path of an override and its value."""
    key, _, written = override.partition("=")
    path = tuple(int(part) if part.isdigit() else part for part in _PART.findall(key))
    return path, parse(written, OVERRIDE)[0].plain()


def _edited(text: str, changes: Sequence[tuple[Path, Any]]) -> str:
    """The text, changed where the values stand."""
    left = list(changes)
    while left:
        path, value = left.pop(0)
        removed = value is None or value == {}
        if removed and left and (renamed := _renamed(text, path, *left[0])):
            text = renamed
            left.pop(0)
            continue
        text = without_key(text, path) if removed else with_value(text, path, value)
    return text


def _renamed(text: str, old: Path, new: Path, value: Any) -> str:
    """The text with a key under another name, where that is what two changes come to."""
    if old[:-1] != new[:-1] or not isinstance(new[-1], str):
        return ""
    root, _ = parse(text, OVERRIDE)
    node, there = root.at(old)
    if not there or root.at(new)[1] or node.plain() != value:
        return ""
    return with_key(text, old, new[-1])


def _anew(text: str, changes: Sequence[tuple[Path, Any]]) -> str:
    """The spec written anew, with its comments, where its text cannot be changed in place."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDEST
    yaml.indent(mapping=2, sequence=4, offset=2)
    root = yaml.load(text)
    for path, value in changes:
        _set(root, path, value)
    out = io.StringIO()
    yaml.dump(root, out)
    return out.getvalue()


def _dumped(value: Any) -> str:
    out = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, out)
    return out.getvalue()


def _set(root: Any, path: Path, value: Any) -> None:
    """Put a value at a path, making sections on the way; nothing and empty sections are removed."""
    node = root
    for key in path[:-1]:
        below = node[key] if isinstance(key, int) else node.get(key)
        if below is None:
            below = {}
            node[key] = below
        node = below
    if value is not None and value != {}:
        node[path[-1]] = value
    elif isinstance(node, dict):
        node.pop(path[-1], None)
