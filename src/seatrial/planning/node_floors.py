# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The least that a healthy node must reach in the preflight measurements.

A floor is a catalog fact times a share. The shares are far below what healthy hardware reaches, so
that a node below its floor has a fault, and not only a busy neighbour.
"""

from dataclasses import dataclass, fields
from math import isfinite

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.node_types import NodeType

MATMUL_SHARE = 0.4
"""Share of the dense bf16 peak. Large matrix multiplications reach 0.6 to 0.8 of it."""
MEMORY_SHARE = 0.5
"""Share of the memory bandwidth. A copy reaches 0.85 to 0.95 of it."""
LINK_SHARE = 0.3
"""Share of one direction of NVLink, as the bus bandwidth of an all-reduce."""
RDMA_SHARE = 0.3
"""Share of a node's network with RDMA, as the bus bandwidth of an all-reduce between two nodes."""
TCP_SHARE = 0.1
"""The same without RDMA: clouds limit the bandwidth of a single TCP flow."""
VOLUME_SHARE = 0.1
"""Share of the write bandwidth per node that the plan's save time assumes."""
_BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class NodeFloors:
    """Minimum measurements of a node. 0 means that there is no floor."""

    matmul_tflops: float = 0.0
    memory_gb_s: float = 0.0
    within_gb_s: float = 0.0
    between_gb_s: float = 0.0
    write_gb_s: float = 0.0

    def to_text(self) -> str:
        """Format the floors that are set for a command line, such as `within_gb_s=135`."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return ",".join(f"{name}={value:.4g}" for name, value in values if value)

    @classmethod
    def parse(cls, text: str) -> "NodeFloors":
        """Parse the format of `to_text`; raises ValueError."""
        known = {field.name for field in fields(cls)}
        found: dict[str, float] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in known:
                raise ValueError(f"{name} is not a floor; floors are {', '.join(sorted(known))}")
            found[name] = float(value)
            if not isfinite(found[name]) or found[name] < 0:
                raise ValueError(f"the floor {part} is not a positive number")
        return cls(**found)


def node_floors(
    node: NodeType,
    accelerator: Accelerator | None,
    processes: int,
    *,
    rdma: bool,
    write_bytes_per_second: float | None,
) -> NodeFloors:
    """Return the floors of a node of which a run uses `processes` GPUs.

    Without a GPU there are only floors for the network and the volume. GPUs that are not all in
    one NVLink domain have no floor for their links: PCIe topologies differ too much.
    """
    linked = accelerator is not None and 1 < processes <= node.link_domain_gpus
    share_of_node = processes / node.gpus if node.gpus else 1.0
    network = node.network_gbit_s / _BITS_PER_BYTE * share_of_node
    return NodeFloors(
        matmul_tflops=MATMUL_SHARE * accelerator.peak_tflops.bf16 if accelerator else 0.0,
        memory_gb_s=MEMORY_SHARE * accelerator.memory_bandwidth_gb_s if accelerator else 0.0,
        within_gb_s=LINK_SHARE * accelerator.link_bandwidth_gb_s / 2
        if linked and accelerator
        else 0.0,
        between_gb_s=(RDMA_SHARE if rdma else TCP_SHARE) * network,
        write_gb_s=VOLUME_SHARE * (write_bytes_per_second or 0.0) / 1e9,
    )
