# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Storage tiers: how bandwidth grows with capacity, and how a volume of one is asked for."""

from enum import StrEnum

from pydantic import Field, NonNegativeFloat, PositiveFloat

from seatrial.catalog.entry import Entry, Facts
from seatrial.catalog.node_types import Cloud


class StorageKind(StrEnum):
    """What lies behind the mount."""

    LUSTRE = "lustre"
    """A Lustre file system: parallel, shared by all nodes."""
    OBJECT = "object"
    """An object store that is mounted as files."""
    NFS = "nfs"
    """A network file system with one server or service behind it."""
    DISK = "disk"
    """A disk of the node itself; not shared."""


class StoragePrice(Facts):
    """A list price of capacity."""

    usd_per_gib_month: NonNegativeFloat
    """US dollars per GiB and month."""
    as_of: str
    """The day or month on which the source stated it."""
    region: str
    """The region it holds for."""
    source: str = Field(min_length=8)
    """Where it was read."""


class StorageTier(Entry):
    """One tier of shared storage."""

    cloud: Cloud
    """Whose service it is."""
    kind: StorageKind
    """What lies behind the mount."""
    mb_s_per_tib: PositiveFloat | None = None
    """Throughput that each TiB of capacity brings, MB/s; absent where capacity does not set it."""
    max_gb_s: PositiveFloat | None = None
    """Ceiling of the whole file system or account, GB/s; absent where none is published."""
    min_tib: PositiveFloat | None = None
    """Smallest capacity that can be had, TiB; absent where there is no minimum."""
    step_tib: PositiveFloat | None = None
    """Capacity comes in multiples of this, TiB; absent where any size goes."""
    max_tib: PositiveFloat | None = None
    """Largest capacity that can be had without asking, TiB."""
    csi_driver: str
    """Kubernetes CSI driver that mounts it; empty for a plain local path."""
    storage_class: str
    """Storage class that a claim names: the driver's own, or the one Seatrial's chart makes."""
    storage_class_parameters: dict[str, str] = {}
    """Parameters of the storage class for dynamic provisioning."""
    mount_options: tuple[str, ...] = ()
    """Mount options worth setting."""
    dynamic: bool = True
    """Whether the driver makes new volumes; otherwise one must exist."""
    required_parameters: tuple[str, ...] = ()
    """Parameters of the storage class that only the owner of a cluster knows."""
    required_attributes: tuple[str, ...] = ()
    """Attributes that an existing volume is mounted by, beside its handle."""
    pod_annotations: dict[str, str] = {}
    """Annotations without which pods cannot mount it."""
    price: StoragePrice | None = None
    """List price of capacity, where one is published."""
