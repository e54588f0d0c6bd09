# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare what the engine counted for a rank with the plan's own figures."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from seatrial.engines.engine import DistinctRank, TrafficKind
from seatrial.planning.counted import Communication, Compute, Pass, RankCount
from seatrial.planning.memory.breakdown import Memory, MemoryFit, StageMemory
from seatrial.planning.memory.estimate import fit
from seatrial.planning.timing.placement import Route
from seatrial.planning.timing.quantities import Quantities, quantities
from seatrial.planning.timing.traffic import StageCount, stage_counts
from seatrial.planning.workload import Workload

ONE_LINK = 1 << 30
"""GPUs on one link that carries a byte per second: the plan's seconds are then bytes."""
BOTH_WAYS = "all_reduce"
"""Each rank sends the message twice: once to add it up, once to distribute the sum."""


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """Equal communications of a rank in one part of a step."""

    traffic: TrafficKind
    during: Pass
    kind: str
    group: str
    """The engine's name of the process group."""
    members: int
    count: int
    size: int
    """Bytes of all messages."""
    sent: int
    """Bytes that the rank sends, with ring algorithms."""


@dataclass(frozen=True, slots=True)
class SentFigure:
    """Bytes that a rank sends for one purpose, counted and planned."""

    purpose: str
    """tensor, context, experts, pipeline, gradients or weights."""
    counted: int
    planned: int


@dataclass(frozen=True, slots=True)
class RankFigures:
    """A counted rank with the plan's figures for its stage."""

    distinct: DistinctRank
    count: RankCount
    planned: StageMemory | None
    """None on a host without GPUs."""
    outside: int
    """Bytes outside the counted tensors: context, communicators and fragmentation, as planned."""
    verdict: MemoryFit | None
    """Whether the counted rank fits on the GPU; None on a host without GPUs."""
    traffic: tuple[TrafficRow, ...]
    sent: tuple[SentFigure, ...]

    @property
    def peak_moment(self) -> str:
        """When the peak occurs, in words."""
        return peak_moment(self.count)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-compatible data, without the events."""
        count = self.count
        return {
            "rank": count.rank,
            "stage": self.distinct.stage,
            "represents": count.represents,
            "parameters": count.parameters,
            "memory": asdict(count.at_peak),
            "peak": count.peak,
            "peak_moment": self.peak_moment,
            "update_peak": count.update_peak,
            "outside": self.outside,
            "planned": None if self.planned is None else asdict(self.planned),
            "verdict": self.verdict,
            "largest": [asdict(each) for each in count.largest],
            "traffic": [asdict(each) for each in self.traffic],
            "sent": [asdict(each) for each in self.sent],
            "flops": count.flops,
            "cpu_seconds": count.cpu_seconds,
            "resident": count.resident,
        }


def figures_of(
    distinct: DistinctRank,
    count: RankCount,
    kinds: Mapping[str, TrafficKind],
    planned: tuple[Workload, Memory] | None,
) -> RankFigures:
    """Compare a counted rank with the plan."""
    rows = traffic_of(count, kinds)
    if planned is None:
        return RankFigures(distinct, count, None, 0, None, rows, ())
    workload, memory = planned
    stage = next(each for each in memory.stages if each.index == distinct.stage)
    outside = stage.communication + stage.fragmentation
    verdict = fit(count.peak + outside, workload.hardware.memory_bytes, memory.error)
    sent = tuple(_sent_figures(rows, planned_bytes(workload, distinct.stage, count.micro_batches)))
    return RankFigures(distinct, count, stage, outside, verdict, rows, sent)


def traffic_of(count: RankCount, kinds: Mapping[str, TrafficKind]) -> tuple[TrafficRow, ...]:
    """Add up the communications of a step by purpose, pass, kind and group; largest first."""
    counts: Counter[tuple[Pass, str, int]] = Counter()
    sizes: Counter[tuple[Pass, str, int]] = Counter()
    for event in count.events:
        if isinstance(event, Communication) and event.during is not Pass.SETUP:
            key = (event.during, event.kind, event.group)
            counts[key] += 1
            sizes[key] += event.size
    rows = []
    for (during, kind, index), size in sizes.items():
        group = count.groups[index]
        members = len(group.ranks)
        rows.append(
            TrafficRow(
                kinds.get(group.name, TrafficKind.OTHER),
                during,
                kind,
                group.name,
                members,
                counts[during, kind, index],
                size,
                _sent(kind, size, members),
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.size))


def _sent(kind: str, size: int, members: int) -> int:
    if kind in ("send", "receive"):
        return size if kind == "send" else 0
    ring = size * (members - 1) // members
    return 2 * ring if kind == BOTH_WAYS else ring


def planned_bytes(workload: Workload, stage: int, micro_batches: int) -> dict[str, int]:
    """Return the bytes that the plan expects a rank of a stage to send in a step."""
    hardware = replace(workload.hardware, link_bandwidth=1.0, link_domain_gpus=ONE_LINK)
    bare = replace(workload, hardware=hardware)
    known = quantities(bare)
    dense, experts, _ = stage_counts(bare).each[stage]
    traffic, pipeline = known.layer.traffic, known.pipeline
    last = workload.layout.pp_size - 1
    # A stage at an end has a neighbour on one side only.
    sides = 1.0 if 0 < stage < last else 0.5
    layers = dense + experts
    found = {
        "tensor": _bytes(traffic.tensor) * (dense + experts * traffic.moe_tensor) * micro_batches,
        "context": _bytes(traffic.context) * layers * micro_batches,
        "experts": _bytes(traffic.exchange) * experts * micro_batches,
        "pipeline": _bytes(pipeline.transfer) * sides * micro_batches,
        "gradients": _bytes(known.gradients),
        "weights": _bytes(known.weights),
    }
    return {purpose: round(size) for purpose, size in found.items()}


def planned_flops(workload: Workload, stage: int, micro_batches: int) -> int:
    """Return the products of a rank of a stage in a step, without recomputation."""
    known: Quantities = quantities(workload)
    counts: StageCount = stage_counts(workload).each[stage]
    forward = sum(n * each for n, each in zip(counts, known.layer.model_flops, strict=True))
    return round(3 * forward * micro_batches)


def _bytes(route: Route) -> float:
    return route.link + route.network


def _sent_figures(rows: tuple[TrafficRow, ...], planned: dict[str, int]) -> Iterator[SentFigure]:
    """Yield the bytes sent for each purpose that has any."""
    counted: Counter[str] = Counter()
    for row in rows:
        if row.traffic is TrafficKind.REPLICAS:
            counted["weights" if row.kind == "all_gather" else "gradients"] += row.sent
        else:
            counted[row.traffic.value] += row.sent
    for purpose, expected in planned.items():
        if counted[purpose] or expected:
            yield SentFigure(purpose, counted[purpose], expected)


def peak_moment(count: RankCount) -> str:
    """Return when the peak occurs: `backward pass of micro batch 4`."""
    if not count.events:
        return ""
    event = count.events[min(count.peak_event, len(count.events) - 1)]
    while not isinstance(event, Communication | Compute):
        event = count.events[event.event]
    if event.during is Pass.UPDATE:
        return "update"
    chunk = f", chunk {event.chunk}" if _has_chunks(count) else ""
    return f"{event.during} pass of micro batch {event.micro_batch}{chunk}"


def _has_chunks(count: RankCount) -> bool:
    return any(isinstance(event, Compute) and event.chunk for event in count.events)
