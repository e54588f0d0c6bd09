# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find communications of a full-size run that would hang, from what the engine counted.

All executed members of a group must do the same collectives, in the same order, with the same type
and size. Every send needs its receive. If both hold, the ranks are executed together (`streams.py`)
to find ranks that wait for each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from seatrial.planning.counted import Communication, Group, Place, RankCount
from seatrial.rehearsal.streams import (
    NEVER,
    POINT_TO_POINT,
    ComputeStream,
    Execution,
    GroupKey,
    Launch,
    Operation,
    Pairing,
    Represent,
)
from seatrial.units import format_bytes


class Hang(StrEnum):
    """Why ranks would wait for ever, or exchange wrong data."""

    KIND = "different operations"
    DTYPE = "different types"
    SIZE = "different sizes"
    ROOT = "different roots"
    MISSING = "operation without its counterpart"
    CYCLE = "cycle of waits"


@dataclass(frozen=True, slots=True)
class Side:
    """What one rank does where ranks disagree."""

    rank: int
    group: Group
    communication: Communication | None
    """None if the rank has no further operation in the group."""
    place: Place | None
    represents: int | None = None
    """The rank that this one stands for, if that rank was not executed."""

    def __str__(self) -> str:
        """Describe the rank's operation and its place in the engine."""
        rank = f"rank {self.rank:,}"
        if self.represents is not None:
            rank = f"rank {self.represents:,} (executed as rank {self.rank:,})"
        event, place = self.communication, self.place
        if event is None or place is None:
            return f"{rank} has no further operation there"
        module = f"in {place.module} " if place.module else ""
        return f"{rank} {operation_words(event)} {module}({place.line}{_moment_words(event)})"


def operation_words(event: Communication) -> str:
    """Describe an operation: `does an all_reduce of 64 MiB bf16`."""
    size = f"{format_bytes(event.size)} {event.dtype}"
    match event.kind:
        case "send":
            return f"sends {size} to rank {event.peer:,}"
        case "receive":
            return f"receives {size} from rank {event.peer:,}"
        case "broadcast":
            return f"broadcasts {size} from rank {event.peer:,}"
        case "barrier":
            return "enters a barrier"
    article = "an" if event.kind[0] in "aeiou" else "a"
    return f"does {article} {event.kind} of {size}"


def _moment_words(event: Communication) -> str:
    if event.micro_batch < 0:
        return f", {event.during}"
    chunk = f", chunk {event.chunk}" if event.chunk > 0 else ""
    return f", {event.during} of micro-batch {event.micro_batch}{chunk}"


@dataclass(frozen=True, slots=True)
class HangFinding:
    """Ranks that do not agree, and where each of them is."""

    hang: Hang
    group: Group
    """The group in which they disagree; for a cycle, that of the first rank."""
    number: int
    """The position in the sequence of the group or of the two ranks, from 1; 0 for a cycle."""
    sides: tuple[Side, ...]
    """Two ranks, or all ranks of a cycle: each waits for the next one."""
    count: int = 1
    """How often it was found between the same lines of the engine, in different groups."""

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(side.rank for side in self.sides)

    def __str__(self) -> str:
        """Explain the finding in sentences."""
        others = f" The same happens {self.count - 1:,} more times." if self.count > 1 else ""
        if self.hang is Hang.CYCLE:
            chain = "; ".join(f"{side} in {_group_words(side.group)}" for side in self.sides)
            waits = "each rank for the next and the last for the first"
            return f"Cycle of waits, {waits}: {chain}.{others}"
        sides = "; ".join(map(str, self.sides))
        return (
            f"{self.hang.capitalize()} at operation {self.number:,} of {_group_words(self.group)}: "
            f"{sides}.{others}"
        )


def _group_words(group: Group) -> str:
    ranks = group.ranks
    listed = ", ".join(map(str, ranks))
    if len(ranks) > 4:
        listed = f"{ranks[0]:,}, {ranks[1]:,}, … {ranks[-1]:,}"
    return f"{group.name} (ranks {listed})"


@dataclass(frozen=True, slots=True)
class Matching:
    """The result of matching the ranks."""

    findings: tuple[HangFinding, ...]
    ranks: tuple[int, ...]
    """The executed ranks."""
    groups: int
    """Groups with at least two executed members, whose collectives were compared."""
    collectives: int
    """Collectives in these groups that were compared."""
    transfers: int
    """Sends whose receives were found."""
    assumed: tuple[str, ...]
    """What the engine assumed because there was no data, e.g. even routing: sizes hold for it."""


def match_ranks(records: Iterable[RankCount], represent: Represent) -> Matching:
    """Compare the communications of executed ranks; `represent` maps the others to these."""
    pairing = Pairing(records, represent)
    matcher = _Matcher(pairing)
    groups = [members for members in pairing.collectives.values() if len(members) > 1]
    findings = [found for key in pairing.collectives for found in matcher.compare_group(key)]
    channels = list(pairing.channels())
    findings += [found for one, other in channels for found in matcher.compare_channel(one, other)]
    if not findings:
        # After a disagreement, everything that follows would wait for it.
        findings = matcher.cycles(Execution(pairing))
    assumed = {words for record in pairing.records.values() for words in record.assumed}
    return Matching(
        findings=_joined(findings),
        ranks=tuple(sorted(pairing.records)),
        groups=len(groups),
        collectives=sum(len(operations) for members in groups for operations in members.values()),
        transfers=sum(len(own) for own, _ in channels if own[0].communication.kind == "send"),
        assumed=tuple(sorted(assumed)),
    )


class _Matcher:
    """Compares the operations of executed ranks."""

    def __init__(self, pairing: Pairing) -> None:
        self._records = pairing.records
        self._collectives = pairing.collectives

    def compare_group(self, key: GroupKey) -> list[HangFinding]:
        """Return one finding for each way in which a member differs from most others."""
        members = {rank: ops for rank, ops in self._collectives[key].items() if rank in key[1]}
        if len(members) < 2:
            return []
        # With different assumptions, ranks get different numbers of tokens.
        sized = len({self._records[rank].assumed for rank in members}) == 1
        number = _first_difference(members, sized=sized)
        if number is None:
            return []
        kinds: dict[object, list[int]] = {}
        for rank, operations in members.items():
            kinds.setdefault(_signature(operations, number, sized=sized), []).append(rank)
        usual, *odd = sorted(kinds.values(), key=lambda ranks: (-len(ranks), ranks[0]))
        return [self._difference(key, members, number, usual[0], ranks[0]) for ranks in odd]

    def _difference(
        self,
        key: GroupKey,
        members: dict[int, list[Operation]],
        number: int,
        usual: int,
        odd: int,
    ) -> HangFinding:
        """Return the finding for two members that differ at a position."""
        one, other = members[usual], members[odd]
        hang = _reason(_at(one, number), _at(other, number)) or Hang.KIND
        number = self._parting(one, other, number)
        group = Group(key[0], key[1])
        sides = (
            self._side(usual, group, _at(one, number)),
            self._side(odd, group, _at(other, number)),
        )
        return HangFinding(hang, group, number + 1, sides)

    def _parting(self, one: list[Operation], other: list[Operation], number: int) -> int:
        """Return where two ranks begin to do different things, at the latest at a position.

        Operations of equal size hide an additional one until the sizes differ. Ranks of one stage
        execute the same modules, so the modules show it.
        """
        stages = {self._records[op.rank].pp_rank for op in (*one[:1], *other[:1])}
        if len(stages) > 1:
            return number
        for index in range(number):
            if self._moment(one[index]) != self._moment(other[index]):
                return index
        return number

    def _moment(self, operation: Operation) -> tuple[object, ...]:
        event = operation.communication
        return (self._place(operation), event.during, event.micro_batch, event.chunk)

    def _place(self, operation: Operation) -> Place:
        return self._records[operation.rank].places[operation.communication.place]

    def _side(
        self, rank: int, group: Group, operation: Operation | None, represents: int | None = None
    ) -> Side:
        if operation is None:
            return Side(rank, group, None, None, represents)
        return Side(rank, group, operation.communication, self._place(operation), represents)

    def compare_channel(self, own: list[Operation], others: list[Operation]) -> list[HangFinding]:
        """Compare the sends between two ranks with the receives; return at most one finding."""
        for number in range(max(len(own), len(others))):
            one, other = _at(own, number), _at(others, number)
            hang = _reason(one, other)
            if hang is None:
                continue
            number = _first_other_batch(own, others, number)
            one, other = _at(own, number), _at(others, number)
            partner, peer, group = own[0].partner, own[0].peer, own[0].group
            represents = peer if peer != partner else None
            sides = (
                self._side(own[0].rank, group, one),
                self._side(partner, group, other, represents),
            )
            return [HangFinding(hang, group, number + 1, sides)]
        return []

    def cycles(self, execution: Execution) -> list[HangFinding]:
        """Return a finding for each cycle of ranks that wait for each other."""
        follows: dict[Launch, tuple[Operation, Launch]] = {}
        found = []
        for stream in execution.blocked:
            path: list[Launch] = []
            launch = _head(stream)
            while launch not in follows:
                path.append(launch)
                follows[launch] = _awaited(launch, execution)
                launch = follows[launch][1]
            if launch in path:
                chain = [follows[each][0] for each in path[path.index(launch) :]]
                sides = tuple(self._side(op.rank, op.group, op) for op in chain)
                found.append(HangFinding(Hang.CYCLE, chain[0].group, 0, sides))
        return found


def _awaited(launch: Launch, execution: Execution) -> tuple[Operation, Launch]:
    """Return the operation of a launch that cannot start, and what the partner is blocked by."""
    for operation in launch.operations:
        for other in operation.awaits:
            if other.launch.launched < NEVER == other.launch.ready:
                return operation, other.launch.queue[0]
            if other.launch.launched == NEVER:
                return operation, _head(execution.streams[other.rank])
    raise ValueError("the launch is not blocked")


def _head(stream: ComputeStream) -> Launch:
    """Return what a blocked rank waits for: the head of the stream that blocks it."""
    if stream.waits is None:
        raise ValueError(f"rank {stream.record.rank} is not blocked")
    return stream.waits.queue[0]


def _first_other_batch(own: list[Operation], others: list[Operation], number: int) -> int:
    """Return the first transfer whose sides belong to different micro-batches, at most `number`.

    Messages of equal size hide a missing one until the end.
    """
    for index, (one, other) in enumerate(zip(own[:number], others, strict=False)):
        pair = (one.communication.micro_batch, other.communication.micro_batch)
        if pair[0] != pair[1] and min(pair) >= 0:
            return index
    return number


def _first_difference(members: dict[int, list[Operation]], *, sized: bool) -> int | None:
    for number in range(max(map(len, members.values()))):
        if len({_signature(each, number, sized=sized) for each in members.values()}) > 1:
            return number
    return None


def _signature(
    operations: list[Operation], number: int, *, sized: bool
) -> tuple[object, ...] | None:
    """Return what must be equal on all members; `sized` is False if routing differs."""
    if number >= len(operations):
        return None
    event = operations[number].communication
    if event.kind == "barrier":
        return (event.kind,)
    root = event.peer if event.kind == "broadcast" else None
    size = event.size if sized or event.kind != "all_to_all" else None
    return (event.kind, event.dtype, size, root)


def _at(operations: list[Operation], number: int) -> Operation | None:
    return operations[number] if number < len(operations) else None


def _reason(one: Operation | None, other: Operation | None) -> Hang | None:
    """Return how two operations differ that belong together; None if they agree."""
    if one is None or other is None:
        return Hang.MISSING
    first, second = one.communication, other.communication
    transfer = first.kind in POINT_TO_POINT
    if not transfer and first.kind != second.kind:
        return Hang.KIND
    if first.dtype != second.dtype:
        return Hang.DTYPE
    if first.size != second.size:
        return Hang.SIZE
    return None if transfer or first.peer == second.peer else Hang.ROOT


def _joined(findings: list[HangFinding]) -> tuple[HangFinding, ...]:
    """Count findings between the same lines of the engine once."""
    joined: dict[tuple[object, ...], HangFinding] = {}
    for found in findings:
        what = [
            (side.place.line, side.communication.kind)
            if side.place is not None and side.communication is not None
            else None
            for side in found.sides
        ]
        key = (found.hang, found.group.name, *sorted(map(str, what)))
        first = joined.get(key)
        joined[key] = found if first is None else replace(first, count=first.count + 1)
    return tuple(joined.values())
