# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which entries an entry refers to, and defaults that are not among its choices."""

from collections.abc import Iterator

from seatrial.catalog.entry import Entry
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.images import Image
from seatrial.catalog.kinds import Kind
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.profiles import Profile

Reference = tuple[tuple[str | int, ...], Kind, str]
"""The fact that refers, the kind of what it refers to, and that thing's name."""


def references(entry: Entry) -> Iterator[Reference]:
    """Everything that an entry names in other kinds."""
    if isinstance(entry, NodeType):
        # A node without a GPU names no accelerator.
        if entry.accelerator:
            yield ("accelerator",), Kind.ACCELERATORS, entry.accelerator
        yield ("fabric",), Kind.FABRICS, entry.fabric
    elif isinstance(entry, Fabric):
        limits = [("environment", i, v.node_types) for i, v in enumerate(entry.environment)]
        limits += [("avoid", i, v.node_types) for i, v in enumerate(entry.avoid)]
        limits += [("host_paths", i, v.node_types) for i, v in enumerate(entry.host_paths)]
        for fact, index, names in limits:
            for name in names:
                yield (fact, index, "node_types"), Kind.NODE_TYPES, name
    elif isinstance(entry, Image):
        for name in entry.fabrics:
            yield ("fabrics",), Kind.FABRICS, name
    elif isinstance(entry, Profile):
        yield ("default_node_type",), Kind.NODE_TYPES, entry.default_node_type
        yield ("default_storage",), Kind.STORAGE, entry.default_storage
        for name in entry.node_types:
            yield ("node_types",), Kind.NODE_TYPES, name
        for name in entry.storage:
            yield ("storage",), Kind.STORAGE, name
        for engine, name in entry.images.items():
            yield ("images", engine), Kind.IMAGES, name


def stray_defaults(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """The default, its fact and the fact that lists the choices, where it is not among them."""
    if isinstance(entry, Profile):
        if entry.default_node_type not in entry.node_types:
            yield entry.default_node_type, "default_node_type", "node_types"
        if entry.default_storage not in entry.storage:
            yield entry.default_storage, "default_storage", "storage"
