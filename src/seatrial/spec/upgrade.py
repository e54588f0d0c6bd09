# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert older spec formats; apiVersion is checked first.

A conversion lists the fields that are renamed in the next format. It is applied to the parsed tree
on load, so that older files work unchanged, and to the text by `seatrial spec upgrade`.
"""

from dataclasses import dataclass
from typing import Any

from ruamel.yaml.comments import CommentedMap

from seatrial.codes.spec import SpecCode
from seatrial.findings import Finding, Severity, Where
from seatrial.naming import nearest
from seatrial.spec.rewriting import rewritten
from seatrial.spec.run import API_VERSION
from seatrial.spec.secrets import shown, shown_key
from seatrial.spec.tree import Node


@dataclass(frozen=True, slots=True)
class Conversion:
    """The fields that are renamed from one format to the next."""

    to: str
    """The apiVersion of the next format."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Field names in the older format, such as `training.batch`, and their new last part."""


CONVERSIONS: dict[str, Conversion] = {}
"""Conversions by older apiVersion; empty, because there is only one format."""

_ADD = f"Add apiVersion: {API_VERSION}."


def to_current(root: Node) -> tuple[Node, list[Finding]]:
    """Convert a tree to the current format; return findings if that is not possible."""
    while True:
        version = root.child("apiVersion")
        if version is not None and version.value == API_VERSION:
            return root, []
        if version is None or str(version.value) not in CONVERSIONS:
            return root, [_finding(root, version)]
        conversion = CONVERSIONS[str(version.value)]
        for field, name in conversion.renamed:
            *sections, old = field.split(".")
            section, is_there = root.at(tuple(sections))
            if is_there and isinstance(section.value, dict) and old in section.value:
                pairs = section.value.items()
                section.value = {name if key == old else key: child for key, child in pairs}
        version.value = conversion.to


def upgraded(text: str, version: str) -> tuple[str, tuple[str, ...]]:
    """Convert a spec's text to the current format, with comments; return it and the changes."""
    changes: list[str] = []

    def upgrade(root: CommentedMap) -> bool:
        older = version
        while older in CONVERSIONS:
            conversion = CONVERSIONS[older]
            for field, name in conversion.renamed:
                if _rename(root, field, name):
                    changes.append(f"renamed {field} to {name}")
            changes.append(f"changed apiVersion from {older} to {conversion.to}")
            root["apiVersion"] = older = conversion.to
        return bool(changes)

    return rewritten(text, upgrade), tuple(changes)


def _rename(root: CommentedMap, field: str, name: str) -> bool:
    """Rename a field in place and keep its comments; return False if there is no such field."""
    *sections, old = field.split(".")
    section: Any = root
    for key in sections:
        section = section.get(key) if isinstance(section, CommentedMap) else None
    if not isinstance(section, CommentedMap) or old not in section:
        return False
    place, comments = list(section).index(old), section.ca.items.pop(old, None)
    section.insert(place, name, section.pop(old))
    if comments is not None:
        section.ca.items[name] = comments
    return True


def _finding(root: Node, version: Node | None) -> Finding:
    if version is None:
        close = nearest("apiVersion", root.value)
        near = root.value[close] if close else root
        fix = f"Rename {shown_key(close)} to apiVersion." if close else _ADD
        place = Where("apiVersion", root.file, near.key_line or 1, near.key_column or 1)
        rule = "apiVersion is required: it states the version of the spec format."
        return Finding(SpecCode.API_VERSION, Severity.ERROR, place, rule, "", fix)
    place = Where("apiVersion", version.file, version.line, version.column)
    value = shown(version.plain())
    rule = f"this version of Seatrial supports {API_VERSION}, not {value}."
    fix = f"Write apiVersion: {API_VERSION}, or install the Seatrial version that the file is for."
    if root.child("kind") is not None:
        fix = "Check the path: a file with the key kind is a Kubernetes manifest, not a spec."
    return Finding(SpecCode.API_VERSION, Severity.ERROR, place, rule, value, fix)
