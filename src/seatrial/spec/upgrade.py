# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The apiVersion: checked before anything else, so that an older file can be converted first."""

from collections.abc import Callable

from seatrial.findings import Finding, Severity, Where
from seatrial.naming import nearest
from seatrial.spec.codes import SpecCode
from seatrial.spec.run import API_VERSION
from seatrial.spec.secrets import shown, shown_key
from seatrial.spec.tree import Node

CONVERSIONS: dict[str, Callable[[Node], Node]] = {}
"""From an older apiVersion, the step that turns its tree into the next one's; none exist yet."""

_ADD = f"Add apiVersion: {API_VERSION}."


def to_current(root: Node) -> tuple[Node, list[Finding]]:
    """The tree in the current format, or the finding that says why it cannot be read as one."""
    while True:
        version = root.child("apiVersion")
        if version is not None and version.value == API_VERSION:
            return root, []
        if version is None or str(version.value) not in CONVERSIONS:
            return root, [_finding(root, version)]
        root = CONVERSIONS[str(version.value)](root)


def _finding(root: Node, version: Node | None) -> Finding:
    if version is None:
        close = nearest("apiVersion", root.value)
        near = root.value[close] if close else root
        fix = f"Rename {shown_key(close)} to apiVersion." if close else _ADD
        place = Where("apiVersion", root.file, near.key_line or 1, near.key_column or 1)
        rule = "apiVersion is required: it says which format the file has."
        return Finding(SpecCode.API_VERSION, Severity.ERROR, place, rule, "", fix)
    place = Where("apiVersion", version.file, version.line, version.column)
    value = shown(version.plain())
    rule = f"this Seatrial reads {API_VERSION}, not {value}."
    fix = f"Write apiVersion: {API_VERSION}, or install the Seatrial that the file was made for."
    if root.child("kind") is not None:
        fix = "Check the path: a file with a kind is a Kubernetes manifest, not a spec."
    return Finding(SpecCode.API_VERSION, Severity.ERROR, place, rule, value, fix)
