# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The checkpoint budget of a run: size, write time, interval, time lost, capacity, cost."""

from dataclasses import dataclass

from seatrial.catalog.storage import StorageTier
from seatrial.planning.saving.interval import Losses, best_interval, losses, steps_between_saves
from seatrial.planning.saving.size import (
    Kept,
    checkpoint_bytes,
    file_system_bandwidth,
    kept_checkpoints,
    too_large,
    usd_per_month,
    volume_bytes,
    write_seconds,
)
from seatrial.spec.checkpoints import CheckpointsSpec
from seatrial.spec.scalars import AUTO
from seatrial.spec.training import Precision

RESTART_SECONDS = 900.0
"""From a failure to the next step: detection, rescheduling, loading.

AWS gives 15 to 30 minutes for recovery from a checkpoint (SageMaker HyperPod documentation). The
best interval does not depend on it.
"""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """What of a run its checkpoints depend on."""

    parameters: int
    """Of the whole model."""
    precision: Precision
    """Number format of the matrix products."""
    nodes: int
    node_bandwidth: float | None
    """What one node sends at most, bytes/s."""
    steps: int
    """Length of the run."""
    step_seconds: float
    """Time of one step."""
    between_failures: float
    """Mean seconds between failures of the whole job."""


@dataclass(frozen=True, slots=True)
class SaveBudget:
    """What the checkpoints of a run take."""

    size: int
    """Bytes of one checkpoint."""
    write_seconds: float | None
    """Time of one save; None where the storage's bandwidth is not published."""
    best_every_steps: int | None
    """Steps between saves that lose least time; None where the time of a save is unknown."""
    every_steps: int | None
    """Steps between saves as the spec has it, or the best where it is `auto`."""
    lost: Losses | None
    """Shares of the time that saves and failures take at `every_steps`.

    Where the time of a save is unknown, saves are not counted; None where `every_steps` is too.
    """
    kept: Kept | None
    """How many checkpoints the retention keeps."""
    capacity: int
    """Bytes of the checkpoints that lie there at most."""
    volume: int
    """Bytes of the smallest volume of the tier that holds them."""
    available: bool
    """Whether the tier comes so large without asking."""
    usd_per_month: float | None
    """List price of that volume; None where none is published."""


def save_budget(
    run: SavedRun,
    checkpoints: CheckpointsSpec,
    tier: StorageTier,
    volume: int | None = None,
    restart: float = RESTART_SECONDS,
) -> SaveBudget:
    """The budget on one storage tier; without a volume, on the smallest that holds it all.

    An asynchronous save makes training wait only for a copy to main memory, which is not modelled:
    its figures are those of a save that training waits for, an upper bound.
    """
    size = checkpoint_bytes(run.parameters, run.precision)
    chosen = None if checkpoints.every_steps == AUTO else int(checkpoints.every_steps)
    writers = (run.nodes, run.node_bandwidth)
    save = save_seconds(size, writers, checkpoints.keep_last, tier, volume)
    best = None
    if save is not None:
        best = steps_between_saves(
            best_interval(save, restart, run.between_failures), run.step_seconds
        )
    every = chosen or best
    lost, kept, capacity = None, None, size * (checkpoints.keep_last + 1)
    if every is not None:
        lost = losses(every * run.step_seconds, save or 0.0, restart, run.between_failures)
        kept = kept_checkpoints(
            run.steps, every, checkpoints.keep_last, checkpoints.keep_every_steps
        )
        capacity = size * kept.total
    needed = volume_bytes(capacity, tier)
    return SaveBudget(
        size=size,
        write_seconds=save,
        best_every_steps=best,
        every_steps=every,
        lost=lost,
        kept=kept,
        capacity=capacity,
        volume=needed,
        available=not too_large(capacity, tier),
        usd_per_month=usd_per_month(needed, tier),
    )


def save_seconds(
    size: int,
    writers: tuple[int, float | None],
    keep_last: int,
    tier: StorageTier,
    volume: int | None = None,
) -> float | None:
    """The time of one save of so many bytes; without a volume, on the smallest that holds it all.

    `writers` is how many nodes there are, and what each sends. None where the storage's bandwidth
    is not published.
    """
    room = volume if volume is not None else volume_bytes(size * (keep_last + 1), tier)
    return write_seconds(size, *writers, file_system_bandwidth(tier, room))
