# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Record communications, waits and the work between them, in the order of the engine's calls."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from seatrial.planning.counted import (
    Communication,
    Compute,
    Event,
    Group,
    MemoryPoint,
    Pass,
    Place,
    Wait,
)
from seatrial.worker.megatron.full_size.position import Moment, StepPosition
from seatrial.worker.megatron.full_size.storages import Storages

KINDS = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "_allgather_base_": "all_gather",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
    "gather_": "gather",
    "scatter_": "scatter",
    "send": "send",
    "recv_": "receive",
    "recv_any_source_": "receive",
    "barrier": "barrier",
}
"""Operators of torch.distributed, and the name of what they do."""
PEERS = ("dst", "src", "root_rank")
"""Arguments with the other rank's number in the group."""


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors among values, which may be nested in lists and tuples."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in tensors_in(value)]
    return []


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class CountedWork(Work):  # type: ignore[misc]
    """A communication that is complete, and records that the engine waits for it."""

    def __init__(self, recorder: "Recorder", event: int) -> None:
        super().__init__()
        self._recorder, self._event = recorder, event

    def wait(self, timeout: Any = None) -> bool:
        self._recorder.wait(self._event)
        return True

    def synchronize(self) -> None:
        self._recorder.wait(self._event)

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result([])
        return future


class Recorder:
    """The events of one rank."""

    def __init__(self, position: StepPosition, storages: Storages) -> None:
        self.events: list[Event] = []
        self.timeline: list[MemoryPoint] = []
        self.flops: Counter[str] = Counter()
        """Floating point operations of the whole step, by kind."""
        self.is_on = True
        """False after the step: what follows belongs to no step."""
        self._position, self._storages = position, storages
        self._groups: dict[Group, int] = {}
        self._places: dict[Place, int] = {}
        self._known_groups: dict[str, Group] = {}
        self._flops: Counter[str] = Counter()
        self._moved = self._operators = 0
        self._since: Moment | None = None
        # C++ keeps only its half of a handle, so Python must keep the other.
        self._works: dict[int, CountedWork] = {}
        self._no_work = CountedWork(self, -1)
        self._batch: int | None = None
        self._batches = 0
        self._directions: dict[int, Pass] = {}
        self._origins: dict[int, tuple[int, int]] = {}
        self._received: dict[int, int] = {}

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self._groups)

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(self._places)

    # --- computation

    def computed(self, kind: str, flops: int, moved: int) -> None:
        """Add an operator to the work since the last communication."""
        if self._position.moment.during is Pass.SETUP or not self.is_on:
            return
        if self._since != self._position.moment:
            self.flush()
            self._since = self._position.moment
        if flops:
            self._flops[kind] += flops
            self.flops[kind] += flops
        self._moved += moved
        self._operators += 1

    def flush(self) -> None:
        """End the current stretch of work."""
        if self._operators and self._since is not None:
            since = self._since
            self._append(
                Compute(
                    dict(self._flops),
                    self._moved,
                    self._operators,
                    since.during,
                    since.micro_batch,
                    since.chunk,
                )
            )
        self._flops = Counter()
        self._moved = self._operators = 0
        self._since = None

    def _append(self, event: Event) -> None:
        if self._position.moment.during is not Pass.SETUP:
            live = self._storages.take_highest()
            self.timeline.append(MemoryPoint(len(self.events), live, self._position.in_flight))
        self.events.append(event)

    # --- communication

    def communicated(self, func: Any, args: Sequence[Any]) -> Work:
        """Record a communication, and return a handle that records the wait for it."""
        given = dict(zip((each.name for each in func._schema.arguments), args, strict=False))
        group = self._group(given["process_group"])
        name = func.overloadpacket.__name__
        if len(group.ranks) == 1 or not self.is_on:
            return self._no_work
        self.flush()
        inputs, outputs = _sides(name, given)
        tensors = outputs or inputs
        peer = next((given[each] for each in PEERS if each in given), None)
        is_pair = name in ("send", "recv_", "recv_any_source_")
        during, micro_batch, chunk = self._attribute(is_pair, tensors)
        event = len(self.events)
        self._append(
            Communication(
                KINDS.get(name, name.strip("_")),
                self._groups.setdefault(group, len(self._groups)),
                str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
                sum(tensor.numel() for tensor in inputs),
                sum(tensor.numel() for tensor in outputs),
                max(bytes_of(inputs), bytes_of(outputs)),
                None if peer is None else group.ranks[int(peer)],
                self._batch if is_pair else None,
                is_pair or given.get("async_op", True),
                during,
                micro_batch,
                chunk,
                self._place(),
            )
        )
        if name == "recv_":
            self._received[_storage(tensors[0])] = event
        work = CountedWork(self, event)
        self._works[event] = work
        return work

    def wait(self, event: int) -> None:
        """Record that the engine waits for an asynchronous communication."""
        known = self._works.pop(event, None)
        if known is None or not self.is_on:
            return
        communication = self.events[event]
        if isinstance(communication, Communication) and communication.asynchronous:
            self.flush()
            self._append(Wait(event))

    def _group(self, boxed: Any) -> Group:
        group = ProcessGroup.unbox(boxed)
        found = self._known_groups.get(group.group_name)
        if found is None:
            ranks = tuple(dist.get_process_group_ranks(group))
            found = Group(group.group_desc, ranks)
            self._known_groups[group.group_name] = found
        return found

    def _place(self) -> int:
        place = Place(self._position.module, self._position.line())
        return self._places.setdefault(place, len(self._places))

    # --- sends and receives between stages

    def begin_batch(self) -> None:
        """Begin sends and receives that are started together."""
        self._batch = self._batches
        self._batches += 1

    def end_batch(self) -> None:
        self._batch = None

    def send_and_receive(self, **tensors: torch.Tensor | None) -> None:
        """Note the direction of tensors before the engine sends and receives them."""
        for name, tensor in tensors.items():
            if tensor is not None:
                ahead = name in ("tensor_send_next", "tensor_recv_prev")
                self._directions[_storage(tensor)] = Pass.FORWARD if ahead else Pass.BACKWARD

    def produced(self, tensors: Any) -> None:
        """Note the micro-batch of what a pass returns, which is sent later."""
        moment = self._position.moment
        for tensor in tensors_in(tensors):
            self._origins[_storage(tensor)] = (moment.micro_batch, moment.chunk)

    def consumed(self, tensors: Any) -> None:
        """Attribute the receipt of a pass's inputs to its micro-batch."""
        moment = self._position.moment
        for tensor in tensors_in(tensors):
            event = self._received.pop(_storage(tensor), None)
            known = self.events[event] if event is not None else None
            if event is not None and isinstance(known, Communication):
                self.events[event] = replace(
                    known, micro_batch=moment.micro_batch, chunk=moment.chunk
                )

    def _attribute(self, is_pair: bool, tensors: Sequence[torch.Tensor]) -> tuple[Pass, int, int]:
        """Return pass, micro-batch and chunk of a communication."""
        moment = self._position.moment
        during = self._directions.pop(_storage(tensors[0]), None) if is_pair else None
        if during is None:
            return moment.during, moment.micro_batch, moment.chunk
        micro_batch, chunk = self._origins.pop(_storage(tensors[0]), (-1, 0))
        return during, micro_batch, chunk


def _sides(name: str, given: dict[str, Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return what goes in and what comes out."""
    if name == "barrier":
        return [], []
    inputs = [value for key, value in given.items() if "input" in key and "split" not in key]
    outputs = [value for key, value in given.items() if "output" in key and "split" not in key]
    if not inputs and not outputs:
        both = tensors_in(given.get("tensors"))
        return ([] if name.startswith("recv") else both), ([] if name == "send" else both)
    return tensors_in(inputs), tensors_in(outputs)


def _storage(tensor: torch.Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key
