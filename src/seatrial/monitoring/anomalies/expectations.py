# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run was expected to do, as far as anomalies are judged by it."""

from dataclasses import dataclass
from enum import StrEnum


class Transport(StrEnum):
    """What NCCL sends through between nodes, as its own log names it."""

    OFI = "OFI"
    """libfabric, which EFA needs (`NET/OFI`, `NET/AWS Libfabric`)."""
    IB = "IB"
    """InfiniBand verbs, RoCE included (`NET/IB`, `NET/IBext`)."""
    SOCKET = "Socket"
    """TCP sockets (`NET/Socket`)."""


FABRIC_TRANSPORTS = {
    "efa": Transport.OFI,
    "infiniband": Transport.IB,
    "infiniband-sharp": Transport.IB,
    "gke-rdma": Transport.IB,
    "none": Transport.SOCKET,
}
"""What NCCL should say on each fabric of the catalog; others bring plugins with names of their own,
and nothing is judged there."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the plan says of a run; whatever is none is judged by the run's own past."""

    save_seconds: float | None = None
    """Time of one save."""
    transport: Transport | None = None
    """What NCCL sends through between nodes."""
    save_every_steps: int | None = None
    """Steps between saves; 0 where there are none."""
    clip_grad_norm: float = 1.0
    """Gradient norm from which on gradients are clipped; 0 where they are not."""
    evaluate_every_steps: int | None = None
    """Steps between evaluations; 0 where there are none."""
