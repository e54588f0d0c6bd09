# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the plan had said, beside what the evidence tells."""

import re
from collections.abc import Iterator, Sequence

from seatrial.monitoring.anomalies.expectations import FABRIC_TRANSPORTS, Transport
from seatrial.monitoring.diagnosis.evidence import Planned
from seatrial.monitoring.diagnosis.excerpt import Excerpt
from seatrial.monitoring.diagnosis.knowledge import Certainty
from seatrial.monitoring.diagnosis.sighting import Sighting

_SOCKET = re.compile(r"NCCL INFO (?:Using network|Initialized NET plugin) Socket")
_ALLOCATED = re.compile(r"([\d.]+) ([KMGT]iB) (?:is allocated by PyTorch|already allocated)")
_RESERVED = re.compile(
    r"([\d.]+) ([KMGT]iB) (?:is reserved by PyTorch but unallocated|reserved in total by PyTorch)"
)
_UNITS = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_FRAGMENTED = 0.1
"""A share of the allocated memory that lies reserved and unused; more is worth a word."""


def fabric_sightings(excerpts: Sequence[Excerpt], planned: Planned | None) -> Iterator[Sighting]:
    """NCCL over sockets where a fabric was planned."""
    fast = FABRIC_TRANSPORTS.get(planned.fabric) if planned is not None else None
    if planned is None or fast in (None, Transport.SOCKET):
        return
    says = f"NCCL goes over TCP, and {planned.fabric} was planned"
    for excerpt in excerpts:
        for line in excerpt.lines:
            if _SOCKET.search(line.text):
                yield Sighting(
                    *("fabric-fallback-to-tcp", Certainty.CERTAIN, says, "planned-fabric"),
                    *(excerpt.name, line.number, line.text, line.rank),
                )


def memory_words(text: str, planned: Planned | None) -> str:
    """The plan's memory beside what an error for lack of memory counts."""
    parts = []
    if planned is not None and planned.memory_bytes > 0:
        error = planned.memory_error * planned.memory_bytes
        parts.append(f"The plan said {_gib(planned.memory_bytes)} GiB ± {_gib(error)}")
    allocated, reserved = _bytes(_ALLOCATED, text), _bytes(_RESERVED, text)
    if allocated:
        words = f"{_gib(allocated)} GiB was allocated"
        if reserved and "in total" in text:
            reserved = max(reserved - allocated, 0.0)
        if reserved > _FRAGMENTED * allocated:
            words += f" and {_gib(reserved)} GiB reserved but unused: fragmentation"
        parts.append(words)
    return "; ".join(parts) + "." if parts else ""


def _bytes(pattern: re.Pattern[str], text: str) -> float:
    found = pattern.search(text)
    return float(found[1]) * _UNITS[found[2]] if found else 0.0


def _gib(number: float) -> str:
    return f"{number / 2**30:.1f}"
