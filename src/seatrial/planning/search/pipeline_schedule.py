# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plain and the interleaved pipeline schedule.

The order of work is Megatron's (arXiv 2104.04473, section 2.2): forward passes until the pipeline
is full, then one forward and one backward pass alternately, then the remaining backward passes.
"""

from dataclasses import dataclass

FORWARD_SHARE = 1 / 3
"""Forward pass as a fraction of a micro-batch's time; the backward pass takes twice as long."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One pass of one micro-batch through one chunk of a stage."""

    stage: int
    chunk: int
    """The chunk of the stage's layers."""
    micro_batch: int
    """The micro-batch, from 0."""
    forward: bool
    """True for the forward pass."""
    begin: float
    """Start, in seconds from the start of the step."""
    end: float
    """End, in seconds from the start of the step."""


def schedule(stage_seconds: tuple[float, ...], micro_batches: int, chunks: int) -> list[Slot]:
    """Return the slots of a step; `stage_seconds` is the time per micro-batch on each stage."""
    stages = len(stage_seconds)
    orders = [_order(stage, stages, micro_batches, chunks) for stage in range(stages)]
    done: dict[tuple[int, int, int, bool], float] = {}
    free = [0.0] * stages
    following = [0] * stages
    slots = []
    waiting = sum(len(order) for order in orders)
    while waiting:
        for stage in range(stages):
            while following[stage] < len(orders[stage]):
                forward, micro, chunk = orders[stage][following[stage]]
                ready = _ready(done, stage, micro, chunk, forward, stages, chunks)
                if ready is None:
                    break
                share = FORWARD_SHARE if forward else 1 - FORWARD_SHARE
                begin = max(free[stage], ready)
                end = begin + stage_seconds[stage] * share / chunks
                done[stage, chunk, micro, forward] = free[stage] = end
                slots.append(Slot(stage, chunk, micro, forward, begin, end))
                following[stage] += 1
                waiting -= 1
    return slots


def _order(stage: int, stages: int, micro_batches: int, chunks: int) -> list[tuple[bool, int, int]]:
    """Return the passes of a stage in order: forward or backward, micro-batch, chunk."""
    total = micro_batches * chunks
    warm_up = stages - stage - 1
    if chunks > 1:
        warm_up = 2 * (stages - stage - 1) + (chunks - 1) * stages
    warm_up = min(warm_up, total)
    forward = [(True, *_nth(n, stages, chunks, backward=False)) for n in range(total)]
    backward = [(False, *_nth(n, stages, chunks, backward=True)) for n in range(total)]
    order = forward[:warm_up]
    for position in range(total - warm_up):
        order += [forward[warm_up + position], backward[position]]
    return order + backward[total - warm_up :]


def _nth(n: int, stages: int, chunks: int, *, backward: bool) -> tuple[int, int]:
    """Return the micro-batch and chunk of the n-th pass; chunks alternate after each round."""
    if chunks == 1:
        return n, 0
    round_, place = divmod(n, stages * chunks)
    chunk = place // stages
    return round_ * stages + place % stages, chunks - 1 - chunk if backward else chunk


def _ready(
    done: dict[tuple[int, int, int, bool], float],
    stage: int,
    micro: int,
    chunk: int,
    forward: bool,
    stages: int,
    chunks: int,
) -> float | None:
    """Return the time at which the input of a pass is ready; None if it is not known yet."""
    if forward:
        if stage > 0:
            return done.get((stage - 1, chunk, micro, True))
        return done.get((stages - 1, chunk - 1, micro, True)) if chunk else 0.0
    if stage < stages - 1:
        return done.get((stage + 1, chunk, micro, False))
    if chunk < chunks - 1:
        return done.get((0, chunk + 1, micro, False))
    return done.get((stage, chunk, micro, True))
