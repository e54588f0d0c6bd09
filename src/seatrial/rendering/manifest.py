# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Manifests as plain data."""

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]
"""A Kubernetes object, or a part of one."""


def manifest(api_version: str, kind: str, metadata: Manifest, **parts: Any) -> Manifest:
    """Build an object, without its empty parts."""
    head: Manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return head | without_empty(parts)


def without_empty(parts: Mapping[str, Any]) -> Manifest:
    """Drop the parts that are None or an empty list, mapping or text."""
    return {name: value for name, value in parts.items() if value not in (None, [], {}, "", ())}
