# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the layout that is predicted to be fastest is fastest.

A choice is a set of rows that share source, model, sequence length, accelerator, GPUs, global
batch, precision, kernels and release, and differ only in layout, what the optimizer shares out
among it, micro batch and what is recomputed.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from backtest.cross_validation import Prediction
from backtest.rows import Row

FEWEST_LAYOUTS = 3
"""Distinct layouts that make a choice."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice and what following the prediction costs."""

    source: str
    layouts: int
    regret: float
    """Measured time of the layout predicted to be fastest, over that of the fastest, less one."""


def choices(found: Iterable[Prediction]) -> list[Choice]:
    """Every choice among rows, with what the prediction makes of it."""
    sets: dict[Hashable, list[Prediction]] = defaultdict(list)
    for item in found:
        sets[_shared(item.row)].append(item)
    made = []
    for items in sets.values():
        layouts = len({_layout(item.row) for item in items})
        if layouts >= FEWEST_LAYOUTS:
            chosen = min(items, key=lambda item: item.seconds)
            best = min(item.row.seconds for item in items)
            made.append(Choice(items[0].row.source, layouts, chosen.row.seconds / best - 1))
    return made


def _shared(row: Row) -> Hashable:
    """What the rows of a choice have in common."""
    work = row.workload
    samples = work.micro_batch_size * work.micro_batches * work.layout.dp_size
    return (
        row.source,
        work.model.model_dump_json(),
        work.sequence_length,
        row.gpu,
        work.layout.world_size,
        samples,
        work.precision,
        row.kernel,
        row.release,
    )


def _layout(row: Row) -> Hashable:
    work = row.workload
    return (
        work.layout,
        work.micro_batch_size,
        work.recompute,
        work.recompute_modules,
        work.sequence_parallel,
        work.sharding,
        work.shard_size,
    )
