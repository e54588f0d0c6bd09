# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Node types: what one machine of a cloud has, and what a pod asks for to get all of it."""

from collections.abc import Iterable
from datetime import date
from enum import StrEnum

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from seatrial.catalog.entry import Entry, Facts, Kind, Reference


class Cloud(StrEnum):
    """Whose machines they are."""

    AWS = "aws"
    """Amazon Web Services."""
    AZURE = "azure"
    """Microsoft Azure."""
    GOOGLE = "google"
    """Google Cloud."""
    LOCAL = "local"
    """Your own: no cloud."""


class Price(Facts):
    """A list price; a user's own catalog can replace it with the negotiated one."""

    usd_per_hour: NonNegativeFloat
    """On-demand list price of one node, US dollars per hour."""
    as_of: date
    """The day on which the source stated it."""
    region: str
    """The region it holds for."""
    source: str = Field(min_length=8)
    """Where it was read."""


class NodeType(Entry):
    """One machine type of a cloud."""

    cloud: Cloud
    """Whose machine it is."""
    accelerator: str
    """Name of its GPU in the catalog; empty for a node without one."""
    gpus: NonNegativeInt
    """GPUs in one node."""
    link_domain_gpus: NonNegativeInt
    """GPUs that reach each other over NVLink; above `gpus` where the domain spans nodes."""
    cpus: PositiveInt
    """Virtual CPUs of the node."""
    memory_gib: PositiveFloat
    """Main memory of the node, GiB."""
    fabric: str
    """Name of the network between nodes in the catalog; `none` for plain Ethernet."""
    nics: NonNegativeInt
    """Network interfaces that the fabric uses."""
    network_gbit_s: NonNegativeFloat
    """All fabric interfaces of the node together, one direction, Gbit/s."""
    fabric_resource: str = ""
    """Kubernetes resource name of the fabric's devices; empty when pods ask for none."""
    fabric_resource_count: NonNegativeInt = 0
    """How many of them a pod asks for to get the whole node."""
    local_disk_gb: NonNegativeInt = 0
    """Local NVMe disk of the node, GB."""
    price: Price | None = None
    """List price, where one is published."""

    def named_entries(self) -> Iterable[Reference]:
        if self.accelerator:
            yield ("accelerator",), Kind.ACCELERATORS, self.accelerator
        yield ("fabric",), Kind.FABRICS, self.fabric
