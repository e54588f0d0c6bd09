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
    usd_per_save,
    volume_bytes,
    write_seconds,
)
from seatrial.spec.checkpoints import CheckpointsSpec
from seatrial.spec.scalars import AUTO
from seatrial.spec.training import Precision

RESTART_SECONDS = 900.0
"""Time from a failure to the next step: detection, rescheduling, loading.

AWS states 15 to 30 minutes for recovery from a checkpoint (SageMaker HyperPod documentation). The
best interval does not depend on this time.
"""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The properties of a run that its checkpoints depend on."""

    parameters: int
    """Parameters of the whole model."""
    precision: Precision
    """Number format of the GEMMs."""
    nodes: int
    node_bandwidth: float | None
    """Network bandwidth of one node, bytes/s."""
    steps: int
    """Length of the run."""
    step_seconds: float
    between_failures: float
    """Mean seconds between failures of the whole job."""
    ranks: int = 0
    """Number of ranks, each of which writes files of its own."""
    muon_parameters: int = 0
    """Parameters that Muon updates."""


@dataclass(frozen=True, slots=True)
class SaveBudget:
    """Size, time and cost of the checkpoints of a run."""

    size: int
    """Bytes of one checkpoint."""
    write_seconds: float | None
    """Time of one save; None if the bandwidth of the storage is not published."""
    best_every_steps: int | None
    """Steps between saves that lose the least time; None if the save time is unknown."""
    every_steps: int | None
    """Steps between saves in the spec, or the best interval if it is `auto`."""
    lost: Losses | None
    """Fractions of the time that saves and failures take at `every_steps`.

    If the save time is unknown, saves are not counted. None if `every_steps` is unknown too.
    """
    kept: Kept | None
    """Number of checkpoints that the retention policy keeps."""
    capacity: int
    """Largest total size of the checkpoints on the volume, in bytes."""
    volume: int
    """Size in bytes of the smallest volume in the tier that can store the checkpoints."""
    available: bool
    """True if the tier provides that volume without a quota increase."""
    usd_per_month: float | None
    """List price of that volume per month; None if no price is published."""
    usd_per_save: float | None = None
    """List price of the write operations of one save; None if they are free, or unknown."""


def save_budget(
    run: SavedRun,
    checkpoints: CheckpointsSpec,
    tier: StorageTier,
    volume: int | None = None,
    restart: float = RESTART_SECONDS,
) -> SaveBudget:
    """Return the budget on one storage tier, by default for the smallest sufficient volume.

    With an asynchronous save, training waits only for a copy to main memory, which is not modelled.
    The figures for a synchronous save are used as an upper bound.
    """
    size = checkpoint_bytes(run.parameters, run.precision, run.muon_parameters)
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
        usd_per_save=usd_per_save(run.ranks, tier),
    )


def save_seconds(
    size: int,
    writers: tuple[int, float | None],
    keep_last: int,
    tier: StorageTier,
    volume: int | None = None,
) -> float | None:
    """Return the seconds per save, by default on the smallest sufficient volume.

    `writers` is the number of nodes and the bandwidth of each. Return None if the bandwidth of the
    storage is not published.
    """
    room = volume if volume is not None else volume_bytes(size * (keep_last + 1), tier)
    return write_seconds(size, *writers, file_system_bandwidth(tier, room))
