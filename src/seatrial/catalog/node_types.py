# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Node types: the hardware of a machine type, and the resources that a pod requests for it."""

from collections.abc import Iterable
from datetime import date
from enum import StrEnum

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from seatrial.catalog.entry import Entry, Facts, Kind, Reference


class Cloud(StrEnum):
    """The cloud provider."""

    AWS = "aws"
    """Amazon Web Services."""
    AZURE = "azure"
    """Microsoft Azure."""
    GOOGLE = "google"
    """Google Cloud."""
    LOCAL = "local"
    """Your own machines, without a cloud."""


class Price(Facts):
    """A list price; override it with your negotiated price in your own catalog."""

    usd_per_hour: NonNegativeFloat
    """On-demand list price of one node, US dollars per hour."""
    as_of: date
    """Date on which the source stated the price."""
    region: str
    """Region that the price applies to."""
    source: str = Field(min_length=8)
    """Source of the price."""


class NodeType(Entry):
    """One machine type in a cloud."""

    cloud: Cloud
    """Cloud provider."""
    accelerator: str
    """GPU, by its name in the catalog; empty for a node without GPUs."""
    gpus: NonNegativeInt
    """GPUs per node."""
    link_domain_gpus: NonNegativeInt
    """GPUs in one NVLink domain; more than `gpus` if the domain spans nodes."""
    cpus: PositiveInt
    """Virtual CPUs per node."""
    memory_gib: PositiveFloat
    """Main memory per node, GiB."""
    fabric: str
    """Network between nodes, by its name in the catalog; `none` for plain Ethernet."""
    nics: NonNegativeInt
    """Network interfaces that the fabric uses."""
    network_gbit_s: NonNegativeFloat
    """Total bandwidth of the node's fabric interfaces, one direction, Gbit/s."""
    fabric_resource: str = ""
    """Kubernetes resource name of the fabric's devices; empty if pods do not request any."""
    fabric_resource_count: NonNegativeInt = 0
    """Number of these devices that a pod requests to use the whole node."""
    local_disk_gb: NonNegativeInt = 0
    """Local NVMe disk per node, GB."""
    price: Price | None = None
    """List price, if one is published."""

    def named_entries(self) -> Iterable[Reference]:
        if self.accelerator:
            yield ("accelerator",), Kind.ACCELERATORS, self.accelerator
        yield ("fabric",), Kind.FABRICS, self.fabric
