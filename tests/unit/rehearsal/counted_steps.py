# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Records of legal steps for tests: 1F1B and interleaved schedules, with all kinds of traffic.

They have the structure of Megatron's, in small numbers. A test plants a fault by a function that
gets each event before it is added, and returns the events to add in its place.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from seatrial.planning.counted import (
    Communication,
    Compute,
    Event,
    Group,
    MemoryByRole,
    MemoryPoint,
    Pass,
    Place,
    RankCount,
    Wait,
)
from seatrial.planning.layout import DENSE_AXES, EXPERT_AXES, Axis, Layout

LINES = {
    "tp": "megatron/core/tensor_parallel/mappings.py:245",
    "cp": "megatron/core/extensions/attention.py:90",
    "ep": "megatron/core/transformer/moe/token_dispatcher.py:560",
    "dp": "megatron/core/distributed/param_and_grad_buffer.py:320",
    "pp": "megatron/core/pipeline_parallel/p2p_communication.py:45",
    "norm": "megatron/core/optimizer/clip_grads.py:100",
    "gather": "megatron/core/optimizer/distrib_optimizer.py:2000",
    "embedding": "megatron/core/distributed/finalize_model_grads.py:120",
}


@dataclass(frozen=True)
class Step:
    """What a synthetic run does."""

    layout: Layout
    micro_batches: int = 4
    layers: tuple[int, ...] = ()
    """Layers of each stage's chunk; empty for two in each."""
    overlapped: bool = True
    """True if gradients are reduced during the backward pass."""
    tied: bool = False
    unbatched: bool = False
    """True if sends and receives are not batched, in the order of even and odd ranks."""
    experts: bool = False

    def layers_of(self, stage: int) -> int:
        return self.layers[stage] if self.layers else 2


Change = Callable[["Recorder", Event], list[Event]]


def unchanged(_: "Recorder", event: Event) -> list[Event]:
    return [event]


class Recorder:
    """Records the events of one rank."""

    def __init__(self, step: Step, rank: int, change: Change = unchanged) -> None:
        self.step, self.rank, self.change = step, rank, change
        self.layout = step.layout
        self.place_of = self.layout.coordinates(rank)
        self.stage = self.place_of[Axis.PP]
        self.groups: list[Group] = []
        self._named: dict[str, int] = {}
        self._known: dict[tuple[str, str], int] = {}
        self.places: list[Place] = []
        self.events: list[Event] = []
        self.timeline: list[MemoryPoint] = []
        self.during, self.micro_batch, self.chunk = Pass.SETUP, -1, 0
        self.module = ""
        self.batches = 0
        self.in_flight = 0

    def group(self, name: str, *axes: Axis) -> int:
        if name in self._named:
            return self._named[name]
        grid = EXPERT_AXES if Axis.EP in axes else DENSE_AXES
        own = self.layout.coordinates(self.rank, grid)
        inside = [axis for axis in grid if axis in axes]
        places = product(*(range(self.layout.size(axis)) for axis in inside))
        ranks = [
            self.layout.rank(own | dict(zip(inside, place, strict=True)), grid) for place in places
        ]
        return self.group_of(name, tuple(sorted(ranks)))

    def group_of(self, name: str, ranks: tuple[int, ...]) -> int:
        if name not in self._named:
            self._named[name] = len(self.groups)
            self.groups.append(Group(name, ranks))
        return self._named[name]

    def place(self, line: str) -> int:
        known = self._known.get((self.module, line))
        if known is None:
            known = self._known[self.module, line] = len(self.places)
            self.places.append(Place(self.module, line))
        return known

    def add(self, event: Event) -> None:
        self.events += self.change(self, event)
        live = 100 * (1 + self.in_flight) + (50 if self.during is Pass.UPDATE else 0)
        self.timeline.append(MemoryPoint(len(self.events) - 1, live, self.in_flight))

    def communicate(
        self,
        kind: str,
        group: int,
        elements: int,
        line: str,
        *,
        dtype: str = "bf16",
        peer: int | None = None,
        batch: int | None = None,
        asynchronous: bool = False,
    ) -> int:
        """Add a communication, and return its index; -1 in a group of one."""
        members = len(self.groups[group].ranks)
        if members == 1:
            return -1
        gathers, scatters = kind == "all_gather", kind == "reduce_scatter"
        event = Communication(
            kind=kind,
            group=group,
            dtype=dtype,
            elements_in=elements // members if gathers else elements,
            elements_out=elements // members if scatters else elements,
            size=elements * (2 if dtype == "bf16" else 4),
            peer=peer,
            batch=batch,
            asynchronous=asynchronous,
            during=self.during,
            micro_batch=self.micro_batch,
            chunk=self.chunk,
            place=self.place(line),
        )
        self.add(event)
        return len(self.events) - 1

    def wait(self, event: int) -> None:
        if event >= 0:
            self.add(Wait(event))

    def compute(self, flops: int, attention: int = 0) -> None:
        kinds = {"matrix_product": flops, "attention": attention, "other": flops // 100}
        kinds = {kind: count for kind, count in kinds.items() if count}
        moved = flops // 100 + 1000
        self.add(Compute(kinds, moved, 10, self.during, self.micro_batch, self.chunk))

    def record(self) -> RankCount:
        expert = self.layout.coordinates(self.rank, EXPERT_AXES)
        return RankCount(
            rank=self.rank,
            represents=1,
            tp_rank=self.place_of[Axis.TP],
            cp_rank=self.place_of[Axis.CP],
            dp_rank=self.place_of[Axis.DP],
            pp_rank=self.stage,
            ep_rank=expert[Axis.EP],
            micro_batches=self.step.micro_batches,
            parameters=100,
            at_peak=MemoryByRole(10, 20, 30, 100, 0, 0),
            peak_event=0,
            update_peak=150,
            largest=(),
            timeline=tuple(self.timeline),
            flops={},
            groups=tuple(self.groups),
            places=tuple(self.places),
            events=tuple(self.events),
            imitated=(),
            assumed=("even routing",),
            cpu_seconds=1.0,
            resident=1,
        )


def record(step: Step, rank: int, change: Change = unchanged) -> RankCount:
    """Return what a rank does in a step."""
    recorder = Recorder(step, rank, change)
    world = recorder.group_of("WORLD", tuple(range(step.layout.world_size)))
    recorder.communicate("barrier", world, 0, "megatron/training/initialize.py:80")
    (interleaved if step.layout.vp_size > 1 else one_forward_one_backward)(recorder)
    update(recorder)
    return recorder.record()


def forward(own: Recorder, micro_batch: int, chunk: int = 0) -> None:
    own.during, own.micro_batch, own.chunk = Pass.FORWARD, micro_batch, chunk
    own.in_flight += 1
    for layer in range(own.step.layers_of(own.stage)):
        _layer(own, layer, 1)
    _leave(own)


def backward(own: Recorder, micro_batch: int, chunk: int = 0) -> None:
    own.during, own.micro_batch, own.chunk = Pass.BACKWARD, micro_batch, chunk
    last = micro_batch == own.step.micro_batches - 1
    for layer in reversed(range(own.step.layers_of(own.stage))):
        _layer(own, layer, 2)
        if last and own.step.overlapped:
            own.module = ""
            dp = own.group("DATA_PARALLEL_GROUP_WITH_CP", Axis.DP, Axis.CP)
            reducing(own).append(
                own.communicate(
                    "reduce_scatter", dp, 9600, LINES["dp"], dtype="fp32", asynchronous=True
                )
            )
    own.in_flight -= 1
    _leave(own)


def reducing(own: Recorder) -> list[int]:
    """Return the list of asynchronous reductions of a recorder."""
    pending: list[int] = own.__dict__.setdefault("pending", [])
    return pending


def _leave(own: Recorder) -> None:
    own.module, own.micro_batch = "", -1


def _layer(own: Recorder, layer: int, factor: int) -> None:
    tp = own.group("TENSOR_MODEL_PARALLEL_GROUP", Axis.TP)
    own.module = f"decoder.layers.{layer}.self_attention"
    own.communicate("all_gather", tp, 4800, LINES["tp"])
    own.compute(60_000 * factor, 20_000 * factor)
    cp = own.group("CONTEXT_PARALLEL_GROUP", Axis.CP)
    ranks = own.groups[cp].ranks
    at = ranks.index(own.rank)
    if len(ranks) > 1:
        own.batches += 1
        after, before = ranks[(at + 1) % len(ranks)], ranks[at - 1]
        sent = [
            own.communicate(
                kind, cp, 600, LINES["cp"], peer=peer, batch=own.batches, asynchronous=True
            )
            for kind, peer in (("send", after), ("receive", before))
        ]
        own.compute(10_000 * factor)
        for event in sent:
            own.wait(event)
    own.communicate("reduce_scatter", tp, 4800, LINES["tp"])
    own.module = f"decoder.layers.{layer}.mlp"
    if own.step.experts:
        ep = own.group("EXPERT_MODEL_PARALLEL_GROUP", Axis.EP)
        own.communicate("all_to_all", ep, 2400, LINES["ep"])
        own.compute(100_000 * factor)
        own.communicate("all_to_all", ep, 2400, LINES["ep"])
    else:
        own.communicate("all_gather", tp, 4800, LINES["tp"])
        own.compute(120_000 * factor)
        own.communicate("reduce_scatter", tp, 4800, LINES["tp"])


def transfer(own: Recorder, *what: str) -> None:
    """Do some of send_prev, receive_prev, send_next and receive_next together."""
    pp = own.group("PIPELINE_MODEL_PARALLEL_GROUP", Axis.PP)
    ranks = own.groups[pp].ranks
    peers = {
        "prev": ranks[(own.stage - 1) % len(ranks)],
        "next": ranks[(own.stage + 1) % len(ranks)],
    }
    order = ("send_prev", "receive_prev", "send_next", "receive_next")
    batch = None
    if own.step.unbatched:
        order = ("send_next", "receive_prev", "send_prev", "receive_next")
        if own.stage % 2:
            order = ("receive_prev", "send_next", "receive_next", "send_prev")
    elif what:
        own.batches += 1
        batch = own.batches
    events = []
    for name in order:
        if name in what:
            kind, _, side = name.partition("_")
            events.append(
                own.communicate(
                    kind,
                    pp,
                    1200,
                    LINES["pp"],
                    peer=peers[side],
                    batch=batch,
                    asynchronous=True,
                )
            )
    for event in events:
        own.wait(event)


def one_forward_one_backward(own: Recorder) -> None:
    """Megatron's schedule without interleaving."""
    stages, count = own.layout.pp_size, own.step.micro_batches
    first, last = own.stage == 0, own.stage == stages - 1
    to_prev = () if first else ("send_prev",)
    from_prev = () if first else ("receive_prev",)
    to_next = () if last else ("send_next",)
    from_next = () if last else ("receive_next",)
    warm = min(stages - own.stage - 1, count)
    for number in range(warm):
        transfer(own, *from_prev)
        forward(own, number)
        transfer(own, *to_next)
    if count > warm:
        transfer(own, *from_prev)
    for number in range(count - warm):
        forward(own, warm + number)
        transfer(own, *to_next, *from_next)
        backward(own, number)
        transfer(own, *to_prev, *(from_prev if number < count - warm - 1 else ()))
    for number in range(count - warm, count):
        transfer(own, *from_next)
        backward(own, number)
        transfer(own, *to_prev)


def interleaved(own: Recorder) -> None:
    """Megatron's schedule with several chunks per stage, without overlapped transfers."""
    stages, chunks, count = own.layout.pp_size, own.layout.vp_size, own.step.micro_batches
    total = count * chunks
    first, last = own.stage == 0, own.stage == stages - 1
    warm = min(total, (stages - own.stage - 1) * 2 + (chunks - 1) * stages)

    def turn(number: int, *, reverse: bool = False) -> tuple[int, int]:
        chunk = number % (stages * chunks) // stages
        batch = number // (stages * chunks) * stages + number % stages
        return batch, chunks - 1 - chunk if reverse else chunk

    def gets_forward(number: int) -> bool:
        """Return True if the input of a forward pass comes from another stage."""
        return number < total and not (first and turn(number)[1] == 0)

    def gets_backward(number: int) -> bool:
        return number < total and not (last and turn(number, reverse=True)[1] == chunks - 1)

    def arrives(kind: str, number: int) -> bool:
        """Return True if the other end of the ring sends something at this turn."""
        behind = number - (stages - 1)
        if behind < 0:
            return False
        if kind == "forward":
            return turn(behind)[1] < chunks - 1
        return turn(behind, reverse=True)[1] > 0

    if not first:
        transfer(own, "receive_prev")
    for number in range(warm):
        batch, chunk = turn(number)
        forward(own, batch, chunk)
        moved = [] if last and chunk == chunks - 1 else ["send_next"]
        if gets_forward(number + 1):
            moved.append("receive_prev")
        if number == warm - 1 and warm < total and not last:
            moved.append("receive_next")
        transfer(own, *moved)
    for number in range(total - warm):
        batch, chunk = turn(number + warm)
        forward(own, batch, chunk)
        moved = [] if last and chunk == chunks - 1 else ["send_next"]
        batch, chunk = turn(number, reverse=True)
        backward(own, batch, chunk)
        moved += [] if first and chunk == 0 else ["send_prev"]
        more = number < total - warm - 1
        takes = arrives("forward", number + warm) if first else True
        moved += ["receive_prev"] if takes and more else []
        takes = arrives("backward", number) if last else True
        moved += ["receive_next"] if takes else []
        transfer(own, *moved)
    if warm == total:
        transfer(own, *([] if last else ["receive_next"]))
    for number in range(total - warm, total):
        batch, chunk = turn(number, reverse=True)
        backward(own, batch, chunk)
        moved = [] if first and chunk == 0 else ["send_prev"]
        transfer(own, *moved, *(["receive_next"] if gets_backward(number + 1) else []))


def update(own: Recorder) -> None:
    """Reduce the gradients, compute their norm, update and gather the weights."""
    own.during, own.micro_batch, own.chunk = Pass.UPDATE, -1, 0
    dp = own.group("DATA_PARALLEL_GROUP_WITH_CP", Axis.DP, Axis.CP)
    for event in reducing(own):
        own.wait(event)
    if not own.step.overlapped:
        gradients = 9600 * own.step.layers_of(own.stage)
        own.communicate("reduce_scatter", dp, gradients, LINES["dp"], dtype="fp32")
    if own.step.tied and own.layout.pp_size > 1 and own.stage in (0, own.layout.pp_size - 1):
        ranks = own.groups[own.group("PIPELINE_MODEL_PARALLEL_GROUP", Axis.PP)].ranks
        ends = own.group_of("EMBEDDING_GROUP", (ranks[0], ranks[-1]))
        own.communicate("all_reduce", ends, 2400, LINES["embedding"], dtype="fp32")
    model = own.group("MODEL_PARALLEL_GROUP", Axis.TP, Axis.PP)
    own.communicate("all_reduce", model, 1, LINES["norm"], dtype="fp32")
    own.compute(10_000)
    own.communicate("all_gather", dp, 19200, LINES["gather"])


def records(step: Step, ranks: tuple[int, ...], change: Change = unchanged) -> list[RankCount]:
    return [record(step, rank, change) for rank in ranks]


def without(found: RankCount, dropped: int) -> RankCount:
    """Return a record without one communication and the waits for it."""
    events: list[Event] = []
    for index, event in enumerate(found.events):
        if isinstance(event, Wait) and event.event != dropped:
            events.append(Wait(event.event - (event.event > dropped)))
        elif not isinstance(event, Wait) and index != dropped:
            events.append(event)
        elif isinstance(event, Wait):
            events.append(Compute({}, 0, 0, Pass.FORWARD, -1, 0))
    return replace(found, events=tuple(events))


def at_lines(found: RankCount, line: str) -> list[int]:
    """Return the events at a line of the engine."""
    return [
        index
        for index, event in enumerate(found.events)
        if isinstance(event, Communication) and found.places[event.place].line == LINES[line]
    ]
