# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Execute the counted events of several ranks together, with the semantics of NCCL's streams.

Each rank has one compute stream, which executes its events in order. A communication is launched
when the compute stream reaches it, and runs on the stream of its communicator, in order of launch.
A synchronous one blocks the compute stream until it completes, an asynchronous one blocks it at its
`Wait`. The sends and receives of a batch progress together, on the communicator of their group. A
single send or receive has the communicator of its two ranks (torch, `ProcessGroupNCCL`).

A collective starts when all executed members have reached it, and a send when its receive has. If a
partner was not executed, the rank that represents it stands in.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from math import inf

from seatrial.planning.counted import Communication, Compute, Group, RankCount, Wait

POINT_TO_POINT = {"send": "receive", "receive": "send"}
"""The kinds of point-to-point communications, with their counterparts."""

Represent = Callable[[int], int]
"""Return the executed rank that does the same as a rank."""
Cost = Callable[[RankCount, Compute | Communication], float]
"""Return the seconds of an event."""


NEVER = inf
"""The time of what does not happen."""


@dataclass(slots=True, eq=False)
class Launch:
    """What is launched together on one stream: a batch of sends and receives, or one operation."""

    queue: "deque[Launch]"
    """What was launched on the same stream and is not complete."""
    operations: list["Operation"] = field(default_factory=list)
    last_event: int = -1
    """The event at which it is launched: the last one of a batch."""
    behind: "Launch | None" = None
    """The launch on the same stream that delayed it; None if the compute stream did."""
    launched: float = NEVER
    ready: float = NEVER
    """When it reached the head of its stream."""
    end: float = NEVER
    remaining: int = 0


@dataclass(slots=True, eq=False)
class Operation:
    """A collective, a send or a receive of one rank."""

    rank: int
    event: int
    """Index in the rank's events."""
    communication: Communication
    group: Group
    launch: Launch
    partner: int = -1
    """The executed rank that stands for the peer of a send or receive; -1 for collectives."""
    awaits: list["Operation"] = field(default_factory=list)
    """What must be at the head of its stream before this can start."""
    listeners: list["Operation"] = field(default_factory=list)
    """The operations that await this."""
    missing: int = 0
    """Number of awaited operations that are not at the head of their streams."""
    begin: float = NEVER
    end: float = NEVER

    @property
    def peer(self) -> int:
        """The rank on the other side of a send or receive, executed or not; otherwise -1."""
        peer = self.communication.peer
        return -1 if peer is None else peer


@dataclass(frozen=True, slots=True)
class Busy:
    """The compute stream executes operators."""

    event: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Blocked:
    """The compute stream waits for a communication."""

    launch: Launch
    begin: float
    end: float


@dataclass(slots=True, eq=False)
class ComputeStream:
    """The compute stream of a rank."""

    record: RankCount
    operations: dict[int, Operation]
    """The communications by event."""
    position: int = 0
    clock: float = 0.0
    waits: Launch | None = None
    """What the stream is blocked by."""
    done: list[Busy | Blocked] = field(default_factory=list)
    """What the stream has executed, without waits of no duration."""
    clocks: list[float] = field(default_factory=list)
    """When the stream began each event."""

    @property
    def is_finished(self) -> bool:
        return self.waits is None and self.position == len(self.record.events)


GroupKey = tuple[str, tuple[int, ...], int]
"""Name and ranks of a group, and its number among equal ones of the same rank."""


def group_keys(record: RankCount) -> list[GroupKey]:
    """Return a key for each group of a rank that is the same on all its members."""
    seen: dict[tuple[str, tuple[int, ...]], int] = {}
    keys = []
    for group in record.groups:
        number = seen[group.name, group.ranks] = seen.get((group.name, group.ranks), -1) + 1
        keys.append((group.name, group.ranks, number))
    return keys


Channel = tuple[int, GroupKey, str, int]
"""A rank, its group, send or receive, and the distance to the peer in the group."""


class Pairing:
    """The operations of all executed ranks, and which of them belong together."""

    def __init__(self, records: Iterable[RankCount], represent: Represent) -> None:
        """Read the events; `represent` is asked for ranks that are not among the records."""
        self.records = {record.rank: record for record in records}
        self.operations: dict[int, dict[int, Operation]] = {}
        """The communications by rank and event."""
        self.collectives: dict[GroupKey, dict[int, list[Operation]]] = {}
        """By group and executed member, in order."""
        self._channels: dict[Channel, list[Operation]] = {}
        self._keys = {rank: group_keys(record) for rank, record in self.records.items()}
        self._represent = represent
        for key in dict.fromkeys(key for keys in self._keys.values() for key in keys):
            # A member that never uses the group has an empty list.
            self.collectives[key] = {rank: [] for rank in key[1] if rank in self.records}
        for record in self.records.values():
            self._read(record)

    def _read(self, record: RankCount) -> None:
        launches = _Launches()
        own = self.operations[record.rank] = {}
        for index, event in enumerate(record.events):
            if not isinstance(event, Communication):
                continue
            key, group = self._keys[record.rank][event.group], record.groups[event.group]
            operation = Operation(record.rank, index, event, group, launches.of(event))
            operation.launch.operations.append(operation)
            operation.launch.remaining += 1
            operation.launch.last_event = index
            own[index] = operation
            if event.kind not in POINT_TO_POINT:
                self.collectives[key].setdefault(record.rank, []).append(operation)
                continue
            peer, ranks = operation.peer, group.ranks
            operation.partner = peer if peer in self.records else self._represent(peer)
            away = (ranks.index(peer) - ranks.index(record.rank)) % len(ranks)
            channel = (record.rank, key, event.kind, away)
            self._channels.setdefault(channel, []).append(operation)

    def channels(self) -> Iterator[tuple[list[Operation], list[Operation]]]:
        """Return the sends or receives of each rank with a peer, and the peer's counterparts.

        If both were executed, the pair is returned once, with the sends first.
        """
        for (_, key, kind, away), own in self._channels.items():
            partner, mutual = own[0].partner, own[0].partner == own[0].peer
            theirs = key if mutual else self._same_group(partner, key)
            back = (partner, theirs, POINT_TO_POINT[kind], -away % len(key[1]))
            others = self._channels.get(back, [])
            if not (mutual and kind == "receive" and others):
                yield own, others

    def _same_group(self, rank: int, key: GroupKey) -> GroupKey:
        """Return the group of another rank that corresponds to a group."""
        name, ranks, number = key
        for other in self._keys[rank]:
            if (other[0], len(other[1]), other[2]) == (name, len(ranks), number):
                return other
        return key

    def connect(self) -> None:
        """Note for each operation what it awaits; one without its counterpart never starts."""
        for members in self.collectives.values():
            for rank, operations in members.items():
                others = [each for other, each in members.items() if other != rank]
                for number, operation in enumerate(operations):
                    for each in others:
                        _await(operation, each[number] if number < len(each) else None)
        for own, theirs in self.channels():
            mutual = own[0].peer == own[0].partner
            for one, other in zip_longest(own, theirs):
                if one is not None:
                    _await(one, other)
                if other is not None and mutual:
                    _await(other, one)


def _await(one: Operation, other: Operation | None) -> None:
    one.missing += 1
    if other is not None:
        one.awaits.append(other)
        other.listeners.append(one)


class Execution:
    """Executes the events of all ranks, until they finish or are all blocked."""

    def __init__(self, pairing: Pairing, cost: Cost | None = None) -> None:
        pairing.connect()
        self.streams = {
            rank: ComputeStream(record, pairing.operations[rank])
            for rank, record in pairing.records.items()
        }
        self._cost = cost
        self._runnable = deque(self.streams.values())
        self._heads: deque[Launch] = deque()
        while self._runnable or self._heads:
            if self._heads:
                self._reach_head(self._heads.popleft())
            else:
                self._advance(self._runnable.popleft())

    @property
    def seconds(self) -> float:
        """When the last rank finished."""
        streams = self.streams.values()
        ends = [op.end for stream in streams for op in stream.operations.values()]
        return max([stream.clock for stream in streams] + ends, default=0.0)

    @property
    def blocked(self) -> list[ComputeStream]:
        """The ranks that never finish."""
        return [stream for stream in self.streams.values() if not stream.is_finished]

    def _advance(self, stream: ComputeStream) -> None:
        """Execute a compute stream until it blocks or ends."""
        if stream.waits is not None:
            _unblock(stream, stream.waits)
        events = stream.record.events
        while stream.position < len(events) and stream.waits is None:
            index, event = stream.position, events[stream.position]
            stream.position += 1
            stream.clocks.append(stream.clock)
            if isinstance(event, Compute):
                begin = stream.clock
                stream.clock += self._cost(stream.record, event) if self._cost else 0.0
                if stream.clock > begin:
                    stream.done.append(Busy(index, begin, stream.clock))
            elif isinstance(event, Wait):
                _wait(stream, event.event)
            else:
                self._launch(stream, index, event)

    def _launch(self, stream: ComputeStream, index: int, event: Communication) -> None:
        launch = stream.operations[index].launch
        if index == launch.last_event:
            launch.launched = stream.clock
            launch.queue.append(launch)
            if launch.queue[0] is launch:
                self._heads.append(launch)
            else:
                launch.behind = launch.queue[-2]
            if not event.asynchronous:
                _wait(stream, index)

    def _reach_head(self, launch: Launch) -> None:
        """Let a launch at the head of its stream start what its partners are ready for."""
        if launch.behind is not None and launch.behind.end <= launch.launched:
            launch.behind = None
        launch.ready = launch.launched if launch.behind is None else launch.behind.end
        for operation in launch.operations:
            for listener in operation.listeners:
                listener.missing -= 1
                if listener.missing == 0 and listener.launch.ready < NEVER:
                    self._complete(listener)
        for operation in launch.operations:
            if operation.missing == 0 and operation.end == NEVER:
                self._complete(operation)

    def _complete(self, operation: Operation) -> None:
        launch, stream = operation.launch, self.streams[operation.rank]
        operation.begin = max(other.launch.ready for other in (operation, *operation.awaits))
        seconds = self._cost(stream.record, operation.communication) if self._cost else 0.0
        operation.end = operation.begin + seconds
        launch.remaining -= 1
        if launch.remaining:
            return
        launch.end = max(op.end for op in launch.operations)
        launch.queue.popleft()
        if launch.queue:
            self._heads.append(launch.queue[0])
        if stream.waits is launch:
            self._runnable.append(stream)


def _wait(stream: ComputeStream, event: int) -> None:
    stream.waits = stream.operations[event].launch
    if stream.waits.end < NEVER:
        _unblock(stream, stream.waits)


def _unblock(stream: ComputeStream, launch: Launch) -> None:
    if launch.end > stream.clock:
        stream.done.append(Blocked(launch, stream.clock, launch.end))
        stream.clock = launch.end
    stream.waits = None


class _Launches:
    """The launches of a rank, in the streams of its communicators."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int | None, ...], deque[Launch]] = {}
        self._batches: dict[tuple[int, int], Launch] = {}

    def of(self, event: Communication) -> Launch:
        """Return the launch of an operation, which others of its batch share."""
        if event.kind in POINT_TO_POINT and event.batch is None:
            return Launch(self._queue(event.group, event.peer))
        if event.batch is None:
            return Launch(self._queue(event.group))
        batch = (event.group, event.batch)
        if batch not in self._batches:
            self._batches[batch] = Launch(self._queue(event.group))
        return self._batches[batch]

    def _queue(self, *key: int | None) -> deque[Launch]:
        return self._queues.setdefault(key, deque())
