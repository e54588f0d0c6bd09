# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine's own code counted for a rank of the full-size run, without a GPU.

The worker writes a record for each rank that it ran; a rehearsal compares these records with the
plan.
"""

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from enum import StrEnum
from typing import Any


class Pass(StrEnum):
    """The part of a step in which something happens."""

    SETUP = "setup"
    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"
    """Gradient reduction that does not overlap, gradient norm, optimizer, parameter gather."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the engine something happens."""

    module: str
    """Name of the innermost module, e.g. `decoder.layers.3.mlp`; empty outside the model."""
    line: str
    """File and line of the engine, e.g. `megatron/core/tensor_parallel/mappings.py:245`."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group."""

    name: str
    """The engine's name for it, e.g. `TENSOR_MODEL_PARALLEL_GROUP`."""
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Communication:
    """A collective, or one send or receive."""

    kind: str
    """all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send, receive or barrier."""
    group: int
    """Index in `RankCount.groups`."""
    dtype: str
    elements_in: int
    elements_out: int
    size: int
    """Bytes of the whole message: the larger of input and output."""
    peer: int | None
    """Global rank of the other side of a send or receive, or the root of a broadcast."""
    batch: int | None
    """Sends and receives that are started together have the same number."""
    asynchronous: bool
    """True if the engine waits later, with a `Wait`."""
    during: Pass
    micro_batch: int
    """-1 outside the passes."""
    chunk: int
    """Model chunk of an interleaved schedule."""
    place: int
    """Index in `RankCount.places`."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The engine waits for an asynchronous communication."""

    event: int
    """Index of the communication in `RankCount.events`."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Operators between two communications, added up."""

    flops: dict[str, int]
    """Floating point operations by kind: matrix_product, attention, other."""
    moved: int
    """Bytes that the operators read and write."""
    operators: int
    during: Pass
    micro_batch: int
    chunk: int


Event = Communication | Wait | Compute


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor, or equal tensors of the same module, that is alive at the peak."""

    module: str
    what: str
    """Operator, type and shape, e.g. `aten.mm bf16[4096, 1, 12288]`."""
    role: str
    """One of `MemoryByRole`'s fields."""
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class MemoryByRole:
    """Bytes by role."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    """Output layer and loss."""
    buffers: int
    """What is kept for good and is none of the above, e.g. Transformer Engine's dummy gradients."""

    @property
    def total(self) -> int:
        return (
            self.weights
            + self.gradients
            + self.optimizer
            + self.activations
            + self.logits
            + self.buffers
        )


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """Live bytes over the step."""

    event: int
    """Index in `RankCount.events` of what has just happened."""
    live: int
    """The highest sum since the point before."""
    in_flight: int
    """Micro batches (and chunks) whose activations are kept."""


@dataclass(frozen=True, slots=True)
class RankCount:
    """Everything that was counted for one rank."""

    rank: int
    represents: int
    """How many ranks of the run do the same."""
    tp_rank: int
    cp_rank: int
    dp_rank: int
    pp_rank: int
    ep_rank: int
    micro_batches: int
    """How many micro batches were executed."""
    parameters: int
    at_peak: MemoryByRole
    peak_event: int
    update_peak: int
    """The peak during the update, in bytes."""
    largest: tuple[HeldTensor, ...]
    timeline: tuple[MemoryPoint, ...]
    flops: dict[str, int]
    groups: tuple[Group, ...]
    places: tuple[Place, ...]
    events: tuple[Event, ...]
    imitated: tuple[str, ...]
    """Kernels without a CPU form whose saved tensors are imitated."""
    assumed: tuple[str, ...]
    """What was assumed because no data was computed, e.g. even routing."""
    cpu_seconds: float
    resident: int
    """Peak resident memory of the process, in bytes."""

    @property
    def peak(self) -> int:
        """The highest sum of live bytes in the step."""
        return self.at_peak.total

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-compatible data. Events and points are lists of values."""
        plain = asdict(replace(self, events=(), timeline=()))
        plain["events"] = [[_EVENT_NAMES[type(event)], *astuple(event)] for event in self.events]
        plain["timeline"] = [astuple(point) for point in self.timeline]
        return plain


_EVENT_NAMES: dict[type[Event], str] = {
    Communication: "communication",
    Wait: "wait",
    Compute: "compute",
}
_EVENTS = {name: kind for kind, name in _EVENT_NAMES.items()}


def rank_count(data: Mapping[str, Any]) -> RankCount:
    """Return the record from what `to_dict` returned."""
    return RankCount(
        **dict(data)
        | {
            "at_peak": MemoryByRole(**data["at_peak"]),
            "largest": tuple(HeldTensor(**each) for each in data["largest"]),
            "timeline": tuple(MemoryPoint(*each) for each in data["timeline"]),
            "groups": tuple(Group(each["name"], tuple(each["ranks"])) for each in data["groups"]),
            "places": tuple(Place(**each) for each in data["places"]),
            "events": tuple(_event(*each) for each in data["events"]),
            "imitated": tuple(data["imitated"]),
            "assumed": tuple(data["assumed"]),
        }
    )


def _event(name: str, *values: Any) -> Event:
    event = _EVENTS[name](*values)
    if isinstance(event, Wait):
        return event
    return replace(event, during=Pass(event.during))
