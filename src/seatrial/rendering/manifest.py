# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a manifest is here: plain data, and the few things that all of them have."""

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]
"""One Kubernetes object, or a part of one, as plain data."""


def manifest(api_version: str, kind: str, metadata: Manifest, **parts: Any) -> Manifest:
    """An object with its parts; those that are empty are left out."""
    head: Manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return head | without_empty(parts)


def without_empty(parts: Mapping[str, Any]) -> Manifest:
    """The parts that say something: no nothing, and no empty list, mapping or text."""
    return {name: value for name, value in parts.items() if value not in (None, [], {}, "", ())}
