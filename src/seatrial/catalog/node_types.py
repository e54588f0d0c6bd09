# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Node types: the hardware of a machine type, and the resources that a pod requests for it."""

import re
import subprocess
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from shutil import which
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

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
    """On-premises machines."""


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


BusAddress = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
"""A PCI address, such as `0001:00:00.0`."""


class PcieSwitch(Facts):
    """The devices behind one PCIe switch."""

    gpus: tuple[BusAddress, ...]
    """PCI addresses of its GPUs."""
    nics: tuple[BusAddress, ...]
    """PCI addresses of its network adapters."""


class NumaNode(Facts):
    """One NUMA node: a range of CPUs and the PCIe switches next to them."""

    first_cpu: NonNegativeInt
    """Number of its first CPU."""
    last_cpu: NonNegativeInt
    """Number of its last CPU."""
    switches: tuple[PcieSwitch, ...]
    """Its PCIe switches."""


class Topology(Facts):
    """The PCIe layout of a node that the virtual machine hides, for NCCL's topology file."""

    cpu_vendor: Literal["AuthenticAMD", "GenuineIntel"]
    """Vendor of the CPUs, as in `/proc/cpuinfo`."""
    cpu_family: PositiveInt
    """Family of the CPUs, as in `/proc/cpuinfo`."""
    cpu_model: PositiveInt
    """Model of the CPUs, as in `/proc/cpuinfo`."""
    pcie_gt_s: PositiveInt
    """Transfer rate of a PCIe lane, GT/s: 16 for PCIe 4, 32 for PCIe 5."""
    numa_nodes: tuple[NumaNode, ...]
    """NUMA nodes, in the order of their numbers."""
    source: str = Field(min_length=8)
    """Source of the layout."""


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
    other_fabrics: tuple[str, ...] = ()
    """Other networks that nodes of this type can have instead, by their names in the catalog."""
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
    topology: Topology | None = None
    """PCIe layout, if the virtual machine hides it and pods need a topology file for NCCL."""
    price: Price | None = None
    """List price, if one is published."""

    def with_gpus(self, accelerator: str, gpus: int) -> Self:
        """Return the node type of a host with these GPUs, all in one link domain."""
        title = f"This host, with {gpus} × {accelerator}"
        gpu_facts = {"accelerator": accelerator, "gpus": gpus, "link_domain_gpus": gpus}
        return self.model_copy(update={**gpu_facts, "title": title})

    @property
    def links_nodes(self) -> bool:
        """True if NVLink connects the GPUs of several nodes."""
        return self.link_domain_gpus > self.gpus

    def linked_gpus(self, processes: int) -> int:
        """Return how many GPUs of a run one NVLink domain has, with so many processes per node.

        Pods do not get NVLink between nodes (planning/layout_rules.py, check_node_links).
        """
        return processes if self.links_nodes else self.link_domain_gpus

    @model_validator(mode="after")
    def _topology_lists_every_device(self) -> Self:
        if self.topology is None:
            return self
        switches = [one for numa in self.topology.numa_nodes for one in numa.switches]
        gpus, nics = sum(len(one.gpus) for one in switches), sum(len(one.nics) for one in switches)
        if (gpus, nics) != (self.gpus, self.nics):
            raise ValueError(
                f"topology lists {gpus} GPUs and {nics} network adapters, but the node has "
                f"{self.gpus} and {self.nics}"
            )
        return self

    def named_entries(self) -> Iterable[Reference]:
        if self.accelerator:
            yield ("accelerator",), Kind.ACCELERATORS, self.accelerator
        yield ("fabric",), Kind.FABRICS, self.fabric
        for name in self.other_fabrics:
            yield ("other_fabrics",), Kind.FABRICS, name


HOST = "local"
"""The node type of a host without GPUs."""
_HOST_WITH_GPUS = re.compile(rf"{HOST}/(?P<gpus>[1-9]\d{{0,3}})x-(?P<accelerator>.+)")
_SMI_SECONDS = 20.0


def host_name(accelerator: str, gpus: int) -> str:
    """Return the node type name of a host with GPUs. No file of the catalog lists it."""
    return f"{HOST}/{gpus}x-{accelerator}"


def host_gpus(name: str) -> tuple[str, int] | None:
    """Return the GPUs in the node type name of a host; None for any other node type."""
    match = _HOST_WITH_GPUS.fullmatch(name)
    return (match["accelerator"], int(match["gpus"])) if match else None


def detected_gpus() -> list[str]:
    """Return the names of the GPUs of this host, as NVIDIA's driver reports them."""
    program = which("nvidia-smi")
    if program is None:
        return []
    argv = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(  # noqa: S603  (our own argv, no shell)
            argv, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]
