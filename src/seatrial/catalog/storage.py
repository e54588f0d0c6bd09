# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Storage tiers: how bandwidth scales with capacity, and how to request a volume."""

from enum import StrEnum
from typing import Self

from pydantic import Field, NonNegativeFloat, PositiveFloat

from seatrial.catalog.entry import Entry, Facts
from seatrial.catalog.node_types import Cloud
from seatrial.storage.visibility import DEFAULT_SECONDS


class StorageKind(StrEnum):
    """Kind of storage behind the mount."""

    LUSTRE = "lustre"
    """A Lustre parallel file system, shared by all nodes."""
    OBJECT = "object"
    """An object store that is mounted as a file system."""
    NFS = "nfs"
    """A network file system backed by one server or service."""
    DISK = "disk"
    """A local disk on the node, not shared."""


class StoragePrice(Facts):
    """A list price for capacity, and for write operations if the tier charges for them."""

    usd_per_gib_month: NonNegativeFloat
    """US dollars per GiB-month."""
    usd_per_1000_writes: NonNegativeFloat | None = None
    """US dollars per 1,000 write operations; not set if they are free or no price is published."""
    as_of: str
    """Day or month in which the source stated the price."""
    region: str
    """Region that the price applies to."""
    source: str = Field(min_length=8)
    """Source of the price."""


class StorageTier(Entry):
    """One tier of shared storage."""

    cloud: Cloud
    """Cloud provider."""
    kind: StorageKind
    """Kind of storage behind the mount."""
    mb_s_per_tib: PositiveFloat | None = None
    """Throughput per TiB of capacity, MB/s; not set if throughput does not depend on capacity."""
    max_gb_s: PositiveFloat | None = None
    """Maximum throughput of the file system or account, GB/s; not set if none is published."""
    min_tib: PositiveFloat | None = None
    """Minimum capacity, TiB; not set if there is no minimum."""
    step_tib: PositiveFloat | None = None
    """Capacity increment, TiB; not set if any size is possible."""
    max_tib: PositiveFloat | None = None
    """Maximum capacity without a quota increase, TiB."""
    csi_driver: str
    """Kubernetes CSI driver that mounts the volume; empty for a plain local path."""
    storage_class: str
    """Storage class of a PVC: the driver's, or the class that Seatrial's chart creates."""
    storage_class_parameters: dict[str, str] = {}
    """Parameters of the storage class for dynamic provisioning."""
    mount_options: tuple[str, ...] = ()
    """Recommended mount options."""
    dynamic: bool = True
    """True if the driver can create volumes; otherwise the volume must already exist."""
    required_parameters: tuple[str, ...] = ()
    """Storage class parameters that the cluster administrator must supply."""
    required_attributes: tuple[str, ...] = ()
    """Attributes that mounting an existing volume requires, in addition to its handle."""
    pod_annotations: dict[str, str] = {}
    """Annotations that pods need to mount the volume."""
    visible_after_seconds: PositiveFloat = DEFAULT_SECONDS
    """Longest time after which one node sees a file that another node has written, seconds."""
    price: StoragePrice | None = None
    """List price for capacity, if one is published."""

    @property
    def needs_claim(self) -> bool:
        """True if a run must name an existing PVC: there is no driver, and no local directory."""
        return not self.csi_driver and self.kind is not StorageKind.DISK

    def writing(self, gb_s: float | None) -> Self:
        """Return the tier with a measured write throughput; the same tier if there is none."""
        if gb_s is None:
            return self
        return self.model_copy(update={"mb_s_per_tib": None, "max_gb_s": gb_s})
