# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fabrics: the environment that makes NCCL use a network, and what must not be set on it."""

from collections.abc import Iterable

from pydantic import Field

from seatrial.catalog.entry import Entry, Facts, Kind, Reference


class VariableToSet(Facts):
    """An environment variable that the fabric needs."""

    name: str
    """The variable."""
    value: str
    """What to set it to."""
    why: str = Field(min_length=8)
    """What it is for."""
    source: str = Field(min_length=8)
    """Where this is stated."""
    node_types: tuple[str, ...] = ()
    """The node types it is for; empty means all that have the fabric."""


class VariableToAvoid(Facts):
    """An environment variable that does harm on the fabric."""

    name: str
    """The variable; a trailing `*` stands for every variable that starts so."""
    value: str = ""
    """The value that does harm; empty means any."""
    why: str = Field(min_length=8)
    """What it breaks."""
    source: str = Field(min_length=8)
    """Where this is stated."""
    node_types: tuple[str, ...] = ()
    """The node types it is for; empty means all that have the fabric."""


class HostPath(Facts):
    """A directory of the node that pods must see to use the fabric."""

    path: str = Field(pattern=r"^/[^\s:]*$")
    """Where it is on the node."""
    mount: str = Field(pattern=r"^/[^\s:]*$")
    """Where pods mount it, for reading."""
    why: str = Field(min_length=8)
    """What lies there."""
    source: str = Field(min_length=8)
    """Where this is stated."""
    node_types: tuple[str, ...] = ()
    """The node types it is for; empty means all that have the fabric."""


class Fabric(Entry):
    """One kind of network between nodes."""

    rdma: bool
    """Whether it bypasses the kernel and so needs locked memory (IPC_LOCK)."""
    requires: str = ""
    """What must be installed in the image or on the node."""
    environment: tuple[VariableToSet, ...] = ()
    """Variables to set."""
    avoid: tuple[VariableToAvoid, ...] = ()
    """Variables never to set."""
    annotations: dict[str, str] = {}
    """Annotations by which pods get its network interfaces."""
    host_paths: tuple[HostPath, ...] = ()
    """Directories of the node that pods mount."""
    device_glob: str = ""
    """Pattern of paths in a pod that has its devices, one path a device; empty without devices."""
    daemon: str = ""
    """What must run beside the processes in every pod; empty when nothing must."""

    @property
    def comes_with_node(self) -> bool:
        """Whether its libraries lie on the node, from where pods load them."""
        return any(variable.name == "LD_LIBRARY_PATH" for variable in self.environment)

    def named_entries(self) -> Iterable[Reference]:
        for fact in ("environment", "avoid", "host_paths"):
            for index, limited in enumerate(getattr(self, fact)):
                for name in limited.node_types:
                    yield (fact, index, "node_types"), Kind.NODE_TYPES, name
