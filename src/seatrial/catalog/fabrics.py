# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fabrics: the environment variables that make NCCL use a network, and variables to avoid."""

from collections.abc import Iterable

from pydantic import Field

from seatrial.catalog.entry import Entry, Facts, Kind, Reference


class VariableToSet(Facts):
    """An environment variable that the fabric needs."""

    name: str
    """Name of the variable."""
    value: str
    """Value to set."""
    why: str = Field(min_length=8)
    """Why the variable is needed."""
    source: str = Field(min_length=8)
    """Source of this fact."""
    node_types: tuple[str, ...] = ()
    """Node types that this applies to; if empty, all node types with the fabric."""


class VariableToAvoid(Facts):
    """An environment variable that causes problems on the fabric."""

    name: str
    """Name of the variable; a trailing `*` matches all variables with this prefix."""
    value: str = ""
    """Value that causes problems; if empty, any value causes problems."""
    why: str = Field(min_length=8)
    """Problem that the variable causes."""
    source: str = Field(min_length=8)
    """Source of this fact."""
    node_types: tuple[str, ...] = ()
    """Node types that this applies to; if empty, all node types with the fabric."""


class HostPath(Facts):
    """A host directory that pods must mount to use the fabric."""

    path: str = Field(pattern=r"^/[^\s:]*$")
    """Path on the node."""
    mount: str = Field(pattern=r"^/[^\s:]*$")
    """Path in the pod."""
    read_only: bool = True
    """False if processes write to the files of the directory, as to device files."""
    why: str = Field(min_length=8)
    """Contents of the directory."""
    source: str = Field(min_length=8)
    """Source of this fact."""
    node_types: tuple[str, ...] = ()
    """Node types that this applies to; if empty, all node types with the fabric."""


class Daemon(Facts):
    """A container that must run next to the processes in every pod."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    """Name of the container, which annotations of the fabric refer to."""
    image: str = Field(pattern=r"^[a-z0-9][a-z0-9./_-]*:[A-Za-z0-9._-]+$")
    """Repository and version tag."""
    command: tuple[str, ...] = Field(min_length=1)
    """Command with its arguments."""
    environment: dict[str, str] = {}
    """Environment variables."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities to add."""
    host_paths: tuple[HostPath, ...] = ()
    """Host directories that only the daemon mounts."""
    socket_directory: str = Field(default="", pattern=r"^(/[^\s:]*)?$")
    """Directory of the daemon's sockets, shared with the processes; empty if there is none."""
    ready_file: str = Field(default="", pattern=r"^(/[^\s:]*)?$")
    """File that the daemon creates when it is ready; empty if it creates none."""
    source: str = Field(min_length=8)
    """Source of these facts."""


class Fabric(Entry):
    """One kind of network between nodes."""

    rdma: bool
    """True if the fabric bypasses the kernel and therefore needs locked memory (IPC_LOCK)."""
    requires: str = ""
    """Software that must be installed in the image or on the node."""
    environment: tuple[VariableToSet, ...] = ()
    """Environment variables to set."""
    avoid: tuple[VariableToAvoid, ...] = ()
    """Environment variables that must not be set."""
    annotations: dict[str, str] = {}
    """Pod annotations that request the network interfaces."""
    host_paths: tuple[HostPath, ...] = ()
    """Host directories that pods mount."""
    device_glob: str = ""
    """Glob pattern for the device paths in a pod, one path per device; empty without devices."""
    daemon: Daemon | None = None
    """Daemon that must run next to the processes in every pod, if one is needed."""

    @property
    def comes_with_node(self) -> bool:
        """True if pods load the fabric's libraries from the node."""
        return any(variable.name == "LD_LIBRARY_PATH" for variable in self.environment)

    def named_entries(self) -> Iterable[Reference]:
        for fact in ("environment", "avoid", "host_paths"):
            for index, limited in enumerate(getattr(self, fact)):
                for name in limited.node_types:
                    yield (fact, index, "node_types"), Kind.NODE_TYPES, name
