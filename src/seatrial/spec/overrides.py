# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`key=value` overrides, which set a spec field on the command line."""

import re
import shlex

from seatrial.codes.spec import SpecCode
from seatrial.errors import UnreadableError
from seatrial.findings import Finding, Severity, Where
from seatrial.secrets.names import names_secret
from seatrial.secrets.redaction import looks_secret
from seatrial.spec.fields import field_at, takes_null
from seatrial.spec.secrets import shown
from seatrial.spec.tree import Node, Path, dotted, parse

OVERRIDE = "override"
"""The file name in findings about an override."""

_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*|\[\d{1,6}\])*", re.ASCII)
_ITEM = re.compile(r"\.(\d{1,6})(?=\.|$)", re.ASCII)
_PART = re.compile(r"[A-Za-z_][\w-]*|\d+", re.ASCII)


def apply(root: Node, overrides: tuple[str, ...]) -> list[Finding]:
    """Apply each override to the tree; return findings for overrides that cannot be applied."""
    findings = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not _KEY.fullmatch(key):
            findings.append(_no_override(text, key))
            continue
        node, refused = _read(key, value)
        if node is None:
            findings += refused
            continue
        path = tuple(int(part) if part.isdigit() else part for part in _PART.findall(key))
        reason = _set(root, path, node)
        if reason:
            findings.append(_finding(key, *reason))
    return findings


def in_quotes(key: str, value: str) -> str:
    """Return the fix for a value that must be a string: quoted for YAML and for the shell."""
    hidden = looks_secret(value) or names_secret(key.rpartition(".")[2])
    if hidden or not value.isprintable() or len(value) > 60:
        return f"Put the value in quotes inside the argument: '{key}=\"VALUE\"'."
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    argument = shlex.quote(f'{key}="{escaped}"')
    return f"Put the value in quotes inside the argument: {argument}."


def _no_override(text: str, key: str) -> Finding:
    """Return the finding for an argument that is not `key=value`."""
    bracketed = _ITEM.sub(r"[\1]", key)
    fix = "Write KEY=VALUE, such as training.tokens=10B."
    if bracketed != key and _KEY.fullmatch(bracketed):
        fix = f"Write the index of a list item in brackets: {bracketed}=VALUE."
    plain = key.replace(".--", ".")
    if plain != key and _KEY.fullmatch(plain):
        fix = f"Write the option without hyphens in front: {plain}=VALUE."
    return _finding("", f"{shown(text)} is not an override.", fix)


def _read(key: str, value: str) -> tuple[Node | None, list[Finding]]:
    """Parse the value of an override; return its tree, or None and the findings."""
    opened = value.lstrip()[:1]
    try:
        node, problems = parse(value, OVERRIDE)
    except UnreadableError as error:
        # If the text opens a quote, a list or a section, the fix is to close it, not to add quotes.
        fix = error.finding.fix if opened in ("'", '"', "[", "{") else in_quotes(key, value)
        return None, [_finding(key, error.finding.rule, fix)]
    if problems:
        as_text = in_quotes(key, value) if opened == "*" else ""
        return None, [_finding(key, found.rule, as_text or found.fix) for found in problems]
    if node.value is None and value.strip().lower() not in ("null", "~"):
        # Otherwise an empty shell variable would silently reset the field.
        fix = f"Add a value, or write {key}=null to remove the value in the file."
        return None, [_finding(key, "there is no value after the = sign.", fix)]
    _strip_places(node)
    node.written = value
    return node, []


def _set(root: Node, path: Path, value: Node) -> tuple[str, str] | None:
    """Set the value and create missing sections; return rule and fix if that is not possible."""
    node = root
    for depth, key in enumerate(path):
        last = depth == len(path) - 1
        around = dotted(path[:depth])
        if isinstance(key, int):
            if not isinstance(node.value, list):
                return f"{around} is not a list.", f"Remove [{key}], or set the list in the file."
            if key >= len(node.value):
                known = len(node.value)
                use = f"{around}[0]" + (f" to {around}[{known - 1}]" if known > 1 else "")
                return (
                    f"{around} has {known} item{'' if known == 1 else 's'}; indexes start at 0.",
                    f"Use {use}, or add the item in the file."
                    if known
                    else "Add the item in the file.",
                )
        elif not isinstance(node.value, dict):
            what = "a list" if isinstance(node.value, list) else "a value"
            fix = f"Use an item, such as {around}[0]." if what == "a list" else "Check the key."
            return f"{around} is {what}, so it has no key {key}.", fix
        if last:
            if value.value is None and isinstance(node.value, dict) and _goes_with_value(path):
                node.value.pop(key, None)
            else:
                _put(node, key, value)
            return None
        child = node.child(key)
        if child is None or child.value is None:
            if isinstance(path[depth + 1], int):
                there = dotted(path[: depth + 1])
                return f"the file has no list {there}.", f"Set the whole list: {there}=[...]."
            # In a list, the item exists but is empty; in a section, the key may be new.
            child = Node({}, OVERRIDE)
            _put(node, key, child)
        node = child
    return None


def _goes_with_value(path: Path) -> bool:
    """Return True if null removes the key: for unknown keys and fields with a default.

    If the field accepts null, null is set. If it is required, it is reported as having no value.
    """
    field = field_at(path)
    if field is None:
        return True
    return not field.info.is_required() and not takes_null(field)


def _put(around: Node, key: str | int, value: Node) -> None:
    """Set a list item or a key in a section."""
    around.value[key] = value


def _strip_places(node: Node) -> None:
    """Clear lines and columns, which are meaningless inside an override."""
    node.line = node.column = node.key_line = node.key_column = 0
    if isinstance(node.value, dict | list):
        children = node.value.values() if isinstance(node.value, dict) else node.value
        for child in children:
            _strip_places(child)


def _finding(key: str, rule: str, fix: str) -> Finding:
    place = Where(field=key, file=OVERRIDE)
    return Finding(SpecCode.OVERRIDE, Severity.ERROR, place, rule, "", fix)
