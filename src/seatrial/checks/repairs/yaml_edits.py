# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sets and removes values in the text of a YAML file without changing anything else."""

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from seatrial.errors import SeatrialError
from seatrial.spec.overrides import OVERRIDE
from seatrial.spec.rewriting import WIDEST, rewritten
from seatrial.spec.tree import parse
from seatrial.yaml_scalars import quoted

Path = tuple[str | int, ...]
"""The keys and list positions that lead to a value."""
_INDENT = 2
"""Indentation of a new section if the file has no section to copy it from."""
_COMMA = re.compile(r"\s*,[ \t]*")


class UnplacedError(ValueError):
    """A value cannot be placed at its path."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A node in the file, with its key and its parent."""

    node: Any
    key: Any = None
    """The node of the key; `None` for the root and for list items."""
    around: Any = None
    """The section or list that contains the node."""
    in_flow: bool = False
    """True if `around`, or one of its parents, uses flow style (brackets)."""


def with_value(text: str, path: Path, value: Any) -> str:
    """Return the text with a value at a path; missing sections are created."""
    found, rest = _walk(text, path)
    if rest:
        if any(isinstance(key, int) for key in rest):
            raise UnplacedError(path)
        for key in reversed(rest[1:]):
            value = {key: value}
        if _is_nothing(found.node):
            return _replaced(text, found, {rest[0]: value})
        return _inserted(text, found, str(rest[0]), value)
    there = found.node
    if isinstance(there, MappingNode) and isinstance(value, dict):
        keys = [key.value for key, _ in there.value]
        if set(keys) & set(value):
            return _merged(text, path, keys, value)
    if isinstance(there, SequenceNode) and isinstance(value, list) and there.value:
        count = len(there.value)
        if count <= len(value):
            return _lengthened(text, path, count, value)
    return text if _same(text, path, value) else _replaced(text, found, value)


def with_key(text: str, path: Path, name: str) -> str:
    """Return the text with a new name for the key at a path."""
    found, rest = _walk(text, path)
    if rest or found.key is None:
        raise UnplacedError(path)
    return text[: found.key.start_mark.index] + name + text[found.key.end_mark.index :]


def without_key(text: str, path: Path) -> str:
    """Return the text without the key at a path, its value and the comment lines above it."""
    found, rest = _walk(text, path)
    if rest or not isinstance(found.around, MappingNode):
        return text
    entries = found.around.value
    if len(entries) == 1:
        outer, _ = _walk(text, path[:-1])
        return _replaced(text, outer, {})
    if found.in_flow:
        return _without_entry(text, found)
    return _without_lines(text, found)


def _root(text: str) -> Any:
    return YAML(typ="safe", pure=True).compose(io.StringIO(text))


def _walk(text: str, path: Path) -> tuple[_Found, Path]:
    """Return the deepest existing node on a path, and the rest of the path."""
    found = _Found(_root(text))
    for done, step in enumerate(path):
        node = found.node
        flow = found.in_flow or bool(getattr(node, "flow_style", False))
        below = None
        if isinstance(node, MappingNode):
            pairs = [(key, value) for key, value in node.value if key.value == str(step)]
            below = _Found(pairs[0][1], pairs[0][0], node, flow) if pairs else None
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            below = _Found(node.value[step], None, node, flow)
        if below is None:
            return found, path[done:]
        found = below
    return found, ()


def _same(text: str, path: Path, value: Any) -> bool:
    """True if the path already has the value."""
    node = YAML(typ="safe", pure=True).load(text)
    for step in path:
        node = node[step]
    return type(node) is type(value) and bool(node == value)


def _merged(text: str, path: Path, keys: list[str], value: dict[str, Any]) -> str:
    """Update a section: remove, change and add keys."""
    for gone in keys:
        if gone not in value:
            text = without_key(text, (*path, gone))
    for key, below in value.items():
        text = with_value(text, (*path, key), below)
    return text


def _lengthened(text: str, path: Path, count: int, value: list[Any]) -> str:
    """Update the items of a list, and append more."""
    for number, below in enumerate(value[:count]):
        text = with_value(text, (*path, number), below)
    for below in value[count:]:
        found, _ = _walk(text, path)
        last = found.node.value[-1]
        at = _end(text, last)
        if found.in_flow or found.node.flow_style:
            text = f"{text[:at]}, {_written(below)}{text[at:]}"
        else:
            dash = " " * _column(text, text.rfind("-", 0, last.start_mark.index)) + "- "
            text = _with_line(text, _line_end(text, at), dash + _written(below))
    return text


def _replaced(text: str, found: _Found, value: Any) -> str:
    """Return the text with a node replaced by a value."""
    node, written = found.node, _written(value)
    style = getattr(node, "style", None)
    if isinstance(value, str) and style == '"':
        written = quoted(value, ascii_only=False)
    begin, end = node.start_mark.index, _end(text, node)
    in_block = isinstance(node, MappingNode | SequenceNode) and not node.flow_style
    if found.key is not None and (in_block or style in ("|", ">") or begin == node.end_mark.index):
        colon = text.index(":", found.key.end_mark.index) + 1
        # Keep the rest of the key's line, such as a comment.
        line = _line_end(text, colon)
        rest = text[max(end, line) :] if begin != node.end_mark.index else text[line:]
        return f"{text[:colon]} {written}{text[colon:line]}{rest}"
    return text[:begin] + written + text[end:]


def _inserted(text: str, found: _Found, key: str, value: Any) -> str:
    """Return the text with one more key in a section."""
    node = found.node
    if not isinstance(node, MappingNode):
        raise UnplacedError(key)
    if found.in_flow or node.flow_style:
        entry = f"{_written(key)}: {_written(value)}"
        if not node.value:
            at = node.start_mark.index + 1
            return text[:at] + entry + text[at:]
        at = _end(text, node.value[-1][1])
        comma = _COMMA.match(text, at)
        if comma:
            return f"{text[: comma.end()].rstrip(' ')} {entry}{text[comma.end() :]}"
        return f"{text[:at]}, {entry}{text[at:]}"
    last_key, last = node.value[-1]
    column = node.value[0][0].start_mark.column
    at = _line_end(text, _entry_end(text, last_key, last))
    at = _behind_comments(text, at, column)
    lines = _block(key, value, column, _step(text))
    return _with_line(text, at, _newline(text).join(lines))


def _block(key: str, value: Any, column: int, step: int) -> list[str]:
    """Return a key and its value as lines; sections are indented."""
    lead = " " * column + _written(key) + ":"
    if not isinstance(value, dict) or not value:
        return [f"{lead} {_written(value)}"]
    below = [_block(each, inner, column + step, step) for each, inner in value.items()]
    return [lead, *(line for lines in below for line in lines)]


def _without_lines(text: str, found: _Found) -> str:
    """Return the text without the lines of a key."""
    begin, column = found.key.start_mark.index, found.key.start_mark.column
    end = _line_end(text, _entry_end(text, found.key, found.node))
    end += len(_line_break(text, end))
    line = begin - column
    if text[line:begin].strip():
        # The key follows the dash of a list item. The next key moves up to the dash.
        blank = re.compile(r" *").match(text, end)
        return text[:begin] + text[blank.end() if blank else end :]
    above = text[:line].splitlines(keepends=True)
    while above and re.match(rf" {{{column}}}#", above[-1]):
        line -= len(above.pop())
    return text[:line] + text[end:]


def _without_entry(text: str, found: _Found) -> str:
    """Return the text without an entry of a section in flow style."""
    entries = found.around.value
    number = next(n for n, (key, _) in enumerate(entries) if key is found.key)
    begin, end = found.key.start_mark.index, _entry_end(text, found.key, found.node)
    comma = _COMMA.match(text, end)
    if number + 1 < len(entries) and comma:
        return text[:begin] + text[comma.end() :]
    before = _entry_end(text, *entries[number - 1])
    comma_before = text.find(",", before, begin)
    kept = text[comma_before + 1 : begin]
    # Remove only blanks; keep a comment that belongs to the previous entry.
    return text[:before] + (kept if kept.strip() else "") + text[end:]


def _is_nothing(node: Any) -> bool:
    return isinstance(node, ScalarNode) and node.value in ("", "null", "~") and not node.style


def _entry_end(text: str, key: Any, value: Any) -> int:
    """Return where an entry of a section ends; at the colon if it has no value."""
    if value.start_mark.index == value.end_mark.index:
        return text.index(":", key.end_mark.index) + 1
    return _end(text, value)


def _end(text: str, node: Any) -> int:
    """Return the end of a node, without trailing blanks and comments."""
    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        return _entry_end(text, *node.value[-1])
    if isinstance(node, SequenceNode) and not node.flow_style and node.value:
        return _end(text, node.value[-1])
    end: int = node.end_mark.index
    if getattr(node, "style", None) in ("|", ">"):
        return len(text[:end].rstrip("\r\n"))
    return end


def _line_end(text: str, at: int) -> int:
    """Return the end of the line at a position."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end > at and text[end - 1] == "\r" else end


def _behind_comments(text: str, at: int, column: int) -> int:
    """Return the end of the last comment line below that is indented more than the section."""
    for line in text[at:].splitlines(keepends=True)[1:]:
        bare = line.lstrip(" ")
        if not bare.startswith("#") or len(line) - len(bare) <= column:
            break
        at = _line_end(text, text.index(line, at + 1))
    return at


def _with_line(text: str, at: int, line: str) -> str:
    """Return the text with a line added after a position, which must be the end of a line."""
    end = _line_break(text, at) or _newline(text)
    return f"{text[:at]}{end}{line}{text[at:] or end}"


def _line_break(text: str, at: int) -> str:
    """Return the line break at the end of a line; "" at the end of the text."""
    return "\r\n" if text.startswith("\r\n", at) else text[at : at + 1]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _column(text: str, at: int) -> int:
    return at - (text.rfind("\n", 0, at) + 1)


def _step(text: str) -> int:
    """Return the indentation of sections in the file."""
    found = re.search(r"^\w[\w-]*:[^\S\n]*(?:#[^\n]*)?\r?\n( +)\w", text, re.MULTILINE)
    return len(found[1]) if found else _INDENT


def _written(value: Any) -> str:
    """Format a value on one line, in flow style."""
    if isinstance(value, dict):
        entries = (f"{_written(key)}: {_written(below)}" for key, below in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.width = True, WIDEST
    out = io.StringIO()
    yaml.dump([value], out)
    return out.getvalue().strip()[1:-1]


_PART = re.compile(r"[A-Za-z_][\w-]*|\d+", re.ASCII)


def applied(text: str, overrides: Iterable[str]) -> str:
    """Return the text of a spec with overrides applied; null removes a field."""
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
    return _rewritten(text, changes)


def _change(override: str) -> tuple[Path, Any]:
    """Return the path and the value of an override."""
    key, _, written = override.partition("=")
    path = tuple(int(part) if part.isdigit() else part for part in _PART.findall(key))
    return path, parse(written, OVERRIDE)[0].plain()


def _edited(text: str, changes: Sequence[tuple[Path, Any]]) -> str:
    """Return the text with the values changed in place."""
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
    """Return the text with a key renamed, if two changes amount to a rename; otherwise ""."""
    if old[:-1] != new[:-1] or not isinstance(new[-1], str):
        return ""
    root, _ = parse(text, OVERRIDE)
    node, there = root.at(old)
    if not there or root.at(new)[1] or node.plain() != value:
        return ""
    return with_key(text, old, new[-1])


def _rewritten(text: str, changes: Sequence[tuple[Path, Any]]) -> str:
    """Rewrite the whole spec, with its comments, if its text cannot be changed in place."""

    def change(root: Any) -> bool:
        for path, value in changes:
            _set(root, path, value)
        return True

    return rewritten(text, change)


def _dumped(value: Any) -> str:
    out = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, out)
    return out.getvalue()


def _set(root: Any, path: Path, value: Any) -> None:
    """Set a value at a path, creating sections; `None` and empty sections are removed."""
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
