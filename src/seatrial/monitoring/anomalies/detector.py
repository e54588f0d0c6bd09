# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a detector of anomalies is, and what it reports.

A detector is pure: events go in, and what is wrong at that moment comes out. Of what it has seen it
remembers a bounded part. That the same trouble is told once, and its end once, is not its business
but that of the watchkeeper.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Finding, Severity
from seatrial.monitoring.event_log import Event, EventKind


@dataclass(frozen=True, slots=True)
class AnomalyRule:
    """What is known of an anomaly before it happens; its documentation is made of it."""

    code: AnomalyCode
    title: str
    """What it is, in a few words."""
    severity: Severity
    """How much it matters."""
    threshold: str
    """From where on something counts as abnormal."""
    steps: str
    """How long it has to be so, and so how soon it is told."""
    reason: str
    """Why this threshold and this number."""
    fix: str
    calm: int = 10
    """Looks without it after which it is over."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something that is wrong now."""

    said: str
    """What is wrong, as a sentence."""
    value: str
    """The figure that is out of order."""
    since: int
    """The first step that it was seen in."""
    about: str = ""
    """What it is about, where there can be several at a time: `rank 3`."""


Seen = Sequence[Symptom] | None
"""What a look has shown: nothing that could be judged, or what is wrong now (nothing: all well)."""


class Detector(Protocol):
    """Watches for one kind of anomaly."""

    @property
    def rule(self) -> AnomalyRule:
        """What it watches for."""

    def observe(self, event: Event) -> Seen:
        """Take in an event."""


class AnomalyPhase(StrEnum):
    """Which end of an episode a notice is of."""

    BEGAN = "began"
    """Something has gone wrong."""
    ENDED = "ended"
    """It is over."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Told once when an anomaly begins and once when it is over."""

    finding: Finding
    """What was found, and what to do; at the end, that it is over."""
    phase: AnomalyPhase
    """Whether it begins or is over."""
    step: int
    """The step at which it was noticed."""
    since: int
    """The first step that it was seen in."""
    about: str = ""
    """What it is about, where there can be several at a time: `rank 3`."""

    @property
    def line(self) -> str:
        finding = self.finding
        return f"{finding.severity} {finding.code}: {finding.rule} {finding.fix}".rstrip()

    def event(self, time: float) -> Event:
        """The notice as an event of the log."""
        return Event(EventKind.FINDING, self.step, time, self.values())

    def values(self) -> dict[str, Any]:
        """What such an event brings along."""
        told = asdict(self.finding)
        del told["where"]
        return told | {"phase": self.phase, "since": self.since, "about": self.about}


class NetworkTransport(StrEnum):
    """What NCCL sends through between nodes, as its own log names it."""

    OFI = "OFI"
    """libfabric, which EFA needs (`NET/OFI`, `NET/AWS Libfabric`)."""
    IB = "IB"
    """InfiniBand verbs, RoCE included (`NET/IB`, `NET/IBext`)."""
    SOCKET = "Socket"
    """TCP sockets (`NET/Socket`)."""


FABRIC_TRANSPORTS = {
    "efa": NetworkTransport.OFI,
    "infiniband": NetworkTransport.IB,
    "infiniband-sharp": NetworkTransport.IB,
    "gke-rdma": NetworkTransport.IB,
    "none": NetworkTransport.SOCKET,
}
"""What NCCL should say on each fabric of the catalog; others bring plugins with names of their own,
and nothing is judged there."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the plan says of a run; whatever is none is judged by the run's own past."""

    save_seconds: float | None = None
    """Time of one save."""
    transport: NetworkTransport | None = None
    """What NCCL sends through between nodes."""
    save_every_steps: int | None = None
    """Steps between saves; 0 where there are none."""
    clip_grad_norm: float = 1.0
    """Gradient norm from which on gradients are clipped; 0 where they are not."""
    evaluate_every_steps: int | None = None
    """Steps between evaluations; 0 where there are none."""
