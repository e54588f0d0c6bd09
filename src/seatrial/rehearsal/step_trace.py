# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One step as a timeline, from what the engine counted for a rank of each stage.

The schedule follows from the events: their order on each stage, the waits, and the sends between
stages. All ranks of a stage do the same at the same time, so one of each is enough.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from seatrial.engines.engine import TrafficKind
from seatrial.planning.counted import Compute, Pass, RankCount
from seatrial.planning.timing.constants import TimingConstants
from seatrial.planning.workload import Workload
from seatrial.rehearsal.operation_costs import OperationCosts
from seatrial.rehearsal.streams import Blocked, Busy, ComputeStream, Execution, Operation, Pairing

STREAMS = {
    TrafficKind.TENSOR: "tp",
    TrafficKind.CONTEXT: "cp",
    TrafficKind.EXPERTS: "ep",
    TrafficKind.PIPELINE: "pp",
    TrafficKind.REPLICAS: "dp",
    TrafficKind.OTHER: "other",
}
"""The names of the streams of communications."""
COMPUTE = "compute"
WAITS_FOR = {
    TrafficKind.TENSOR: "tensor-parallel collectives",
    TrafficKind.CONTEXT: "the exchange of keys and values",
    TrafficKind.EXPERTS: "the expert exchange",
    TrafficKind.PIPELINE: "transfers between stages",
    TrafficKind.REPLICAS: "gradients and weights of the replicas",
    TrafficKind.OTHER: "norms and flags of all ranks",
}
PASSES = (Pass.FORWARD, Pass.BACKWARD)
ONCE_PER_STEP = (TrafficKind.REPLICAS, TrafficKind.OTHER)
"""Traffic that does not depend on the number of micro-batches."""
NAMED_SHARE = 0.002
"""Waits below this share of a step are not described."""
MOST_SENTENCES = 8


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """Something that takes time on a stream of a stage."""

    stage: int
    stream: str
    """`compute`, or the axis of a communication."""
    begin: float
    end: float
    name: str
    """The pass, or the kind of a communication."""
    during: Pass
    micro_batch: int
    chunk: int
    module: str = ""
    line: str = ""
    size: int = 0
    """Bytes of a communication."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """What a stage does in the executed part of a step, in seconds. The parts add up to it."""

    stage: int
    rank: int
    computing: float
    exposed: Mapping[TrafficKind, float]
    """Communications that nothing hides."""
    bubble: float
    """Waiting for other stages."""


@dataclass(frozen=True, slots=True)
class PathPart:
    """The share of a stage's work in the critical path."""

    stage: int
    traffic: TrafficKind | None
    """None for computation."""
    seconds: float


@dataclass(frozen=True, slots=True)
class StepTrace:
    """The timeline of a step."""

    seconds: float
    """The estimated time of the whole step."""
    executed: float
    """The part that was executed: fewer micro-batches, and no fixed overhead."""
    micro_batches: int
    """How many micro-batches were executed."""
    of_micro_batches: int
    period: float
    """Seconds of each micro-batch on the slowest stage in the steady state."""
    overhead: float
    """Seconds of the step that no event explains."""
    planned: float
    """The planner's own estimate of the step time."""
    stages: tuple[StageTime, ...]
    path: tuple[PathPart, ...]
    """The critical path, most important part first."""
    spans: tuple[TraceSpan, ...] = field(repr=False)
    clocks: Mapping[int, tuple[float, ...]] = field(repr=False)
    """When each stage begins each of its events."""

    def sentences(self) -> list[str]:
        """Describe the critical path and the largest bubble."""
        computed = sum(part.seconds for part in self.path if part.traffic is None)
        share = computed / self.executed if self.executed else 0.0
        said = [f"{share:.0%} of the critical path is computation."]
        for part in self.path:
            if part.traffic is not None and part.seconds >= NAMED_SHARE * self.executed:
                waits = f"stage {part.stage} waits {_duration(part.seconds)}"
                said.append(f"{waits.capitalize()} for {WAITS_FOR[part.traffic]}.")
        said = said[:MOST_SENTENCES]
        idle = max(self.stages, key=lambda stage: stage.bubble)
        if idle.bubble >= NAMED_SHARE * self.executed:
            share = idle.bubble / self.executed
            said.append(
                f"Stage {idle.stage} is idle longest: it waits {_duration(idle.bubble)} "
                f"({share:.0%}) for other stages."
            )
        return said


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


class DeadlockError(Exception):
    """The ranks wait for each other, so the step never ends."""


def step_trace(
    records: Iterable[RankCount],
    workload: Workload,
    constants: TimingConstants,
    kinds: Mapping[str, TrafficKind],
) -> StepTrace:
    """Return the timeline of a step; `records` has one rank of each stage.

    Raises ValueError if a stage is missing, and DeadlockError if the ranks wait for each other;
    `matching.match_ranks` explains why.
    """
    stages = sorted(records, key=lambda record: record.pp_rank)
    found, wanted = [record.pp_rank for record in stages], workload.layout.pp_size
    if found != list(range(wanted)):
        raise ValueError(
            f"there are records of stages {found}, not of one rank in each of {wanted}"
        )
    costs = OperationCosts(workload, constants, stages, kinds)
    ranks = {record.pp_rank: record.rank for record in stages}
    each = workload.layout.world_size // workload.layout.pp_size
    execution = Execution(Pairing(stages, lambda rank: ranks[rank // each]), costs.seconds)
    if execution.blocked:
        stuck = ", ".join(str(stream.record.pp_rank) for stream in execution.blocked)
        raise DeadlockError(f"stages {stuck} wait for each other")
    executed = execution.seconds
    period = max(_period(stream, costs) for stream in execution.streams.values())
    left_out = workload.micro_batches - stages[0].micro_batches
    return StepTrace(
        seconds=executed + max(0, left_out) * period + costs.overhead,
        executed=executed,
        micro_batches=stages[0].micro_batches,
        of_micro_batches=workload.micro_batches,
        period=period,
        overhead=costs.overhead,
        planned=costs.planned.total,
        stages=tuple(_stage(s, costs, executed) for s in execution.streams.values()),
        path=_critical_path(execution, costs),
        spans=tuple(_spans(execution, costs)),
        clocks={s.record.pp_rank: tuple(s.clocks) for s in execution.streams.values()},
    )


def _period(stream: ComputeStream, costs: OperationCosts) -> float:
    """Return the seconds in which a stage handles a micro-batch, without waiting for others.

    In the steady state the slowest stage never waits, so its period is that of the pipeline.
    """
    record, total = stream.record, 0.0
    for item in stream.done:
        if isinstance(item, Busy):
            event = record.events[item.event]
            if isinstance(event, Compute) and event.during in PASSES:
                total += item.end - item.begin
            continue
        operation = _limiting(item)
        sent = operation.communication
        kind = costs.kind(operation.group, sent)
        if sent.during in PASSES and kind not in ONCE_PER_STEP:
            total += item.end - min(max(item.begin, operation.begin), item.end)
    return total / record.micro_batches


def _limiting(item: Blocked) -> Operation:
    """Return the operation of a launch that completed last."""
    return max(item.launch.operations, key=lambda operation: operation.end)


def _stage(stream: ComputeStream, costs: OperationCosts, executed: float) -> StageTime:
    exposed: dict[TrafficKind, float] = dict.fromkeys(TrafficKind, 0.0)
    computing = bubble = 0.0
    for item in stream.done:
        if isinstance(item, Busy):
            computing += item.end - item.begin
            continue
        operation = _limiting(item)
        begin = min(max(item.begin, operation.begin), item.end)
        own = operation.launch.ready >= operation.begin
        kind = costs.kind(operation.group, operation.communication)
        exposed[kind] += item.end - begin
        if own:
            # Only its own earlier communications delayed it.
            exposed[kind] += begin - item.begin
        else:
            bubble += begin - item.begin
    bubble += executed - stream.clock
    record = stream.record
    return StageTime(record.pp_rank, record.rank, computing, exposed, bubble)


def _critical_path(execution: Execution, costs: OperationCosts) -> tuple[PathPart, ...]:
    """Follow the longest chain of dependencies back from the end of the step."""
    found: defaultdict[tuple[int, TrafficKind | None], float] = defaultdict(float)
    stream = max(execution.streams.values(), key=lambda stream: stream.clock)
    position = {rank: len(each.done) - 1 for rank, each in execution.streams.items()}
    moment = stream.clock
    while True:
        rank, stage = stream.record.rank, stream.record.pp_rank
        while position[rank] >= 0 and stream.done[position[rank]].begin >= moment:
            position[rank] -= 1
        if position[rank] < 0:
            break
        item = stream.done[position[rank]]
        position[rank] -= 1
        if isinstance(item, Busy):
            found[stage, None] += min(moment, item.end) - item.begin
            moment = item.begin
            continue
        operation = _limiting(item)
        while True:
            kind = costs.kind(operation.group, operation.communication)
            found[stage, kind] += operation.end - operation.begin
            latest = max((operation, *operation.awaits), key=lambda op: op.launch.ready)
            stream = execution.streams[latest.rank]
            stage = stream.record.pp_rank
            moment = latest.launch.ready
            if latest.launch.behind is None:
                break
            operation = max(latest.launch.behind.operations, key=lambda op: op.end)
    parts = (PathPart(stage, kind, seconds) for (stage, kind), seconds in found.items() if seconds)
    return tuple(sorted(parts, key=lambda part: -part.seconds))


def _spans(execution: Execution, costs: OperationCosts) -> Iterator[TraceSpan]:
    for stream in execution.streams.values():
        record = stream.record
        stage = record.pp_rank
        for item in stream.done:
            event = record.events[item.event] if isinstance(item, Busy) else None
            if isinstance(event, Compute):
                yield TraceSpan(
                    stage,
                    COMPUTE,
                    item.begin,
                    item.end,
                    event.during,
                    event.during,
                    event.micro_batch,
                    event.chunk,
                )
        for operation in stream.operations.values():
            sent, place = operation.communication, record.places[operation.communication.place]
            if operation.end > operation.begin:
                yield TraceSpan(
                    stage,
                    STREAMS[costs.kind(operation.group, operation.communication)],
                    operation.begin,
                    operation.end,
                    sent.kind,
                    sent.during,
                    sent.micro_batch,
                    sent.chunk,
                    place.module,
                    place.line,
                    sent.size,
                )
