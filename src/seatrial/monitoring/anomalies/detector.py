# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of an anomaly detector and of its reports.

A detector is pure: it receives events and returns the current problems. Its memory is bounded. The
anomaly monitor, not the detector, reports each problem and its end only once.
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
    """The static description of an anomaly, from which its documentation is generated."""

    code: AnomalyCode
    title: str
    severity: Severity
    threshold: str
    """The threshold of abnormal values."""
    steps: str
    """How long the anomaly must last, and hence how soon it is reported."""
    reason: str
    """Why this threshold and this duration."""
    fix: str
    calm: int = 10
    """Consecutive observations without the anomaly after which it ends."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """A current problem."""

    message: str
    """The problem, as a sentence."""
    value: str
    """The abnormal value."""
    since: int
    """The first step in which it was observed."""
    about: str = ""
    """The subject, if there can be several at a time: `rank 3`."""


Seen = Sequence[Symptom] | None
"""`None` if the check could not run, otherwise the current problems (empty if healthy)."""


class Detector(Protocol):
    """Detects one kind of anomaly."""

    @property
    def rule(self) -> AnomalyRule:
        """The description of the anomaly."""

    def observe(self, event: Event) -> Seen:
        """Process an event."""


class AnomalyPhase(StrEnum):
    """Start or end of an anomaly."""

    BEGAN = "began"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Notice:
    """Reported once when an anomaly starts and once when it ends."""

    finding: Finding
    """The problem and the fix; at the end, a note that it is resolved."""
    phase: AnomalyPhase
    step: int
    """The step at which it was detected."""
    since: int
    """The first step in which it was observed."""
    about: str = ""
    """The subject, if there can be several at a time: `rank 3`."""

    @property
    def line(self) -> str:
        finding = self.finding
        return f"{finding.severity} {finding.code}: {finding.rule} {finding.fix}".rstrip()

    def event(self, time: float) -> Event:
        return Event(EventKind.FINDING, self.step, time, self.values())

    def values(self) -> dict[str, Any]:
        """Return the fields of such an event."""
        values = asdict(self.finding)
        del values["where"]
        return values | {"phase": self.phase, "since": self.since, "about": self.about}


class NetworkTransport(StrEnum):
    """NCCL's transport between nodes, as named in its log."""

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
    "roce": NetworkTransport.IB,
    "none": NetworkTransport.SOCKET,
}
"""The transport that NCCL should report on each fabric of the catalog. Other fabrics have plugins
with different names and are not checked."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """Values from the plan. If a value is None, the run's own history is the baseline."""

    save_seconds: float | None = None
    """Seconds of one save."""
    transport: NetworkTransport | None = None
    """NCCL's transport between nodes."""
    save_every_steps: int | None = None
    """Steps between saves; 0 if there are none."""
    clip_grad_norm: float = 1.0
    """Gradient norm above which gradients are clipped; 0 if they are not."""
    evaluate_every_steps: int | None = None
    """Steps between evaluations; 0 if there are none."""
