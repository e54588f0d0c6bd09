# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How wrong the constants of one stack are of another: the error of what was never measured.

The constants of megatron-core predict the published figures of all other software, as they would
those of a stack that the planner has no constants for. torchtitan's are the only ones of FSDP. Its
figure is what the allocator had reserved at most; recomputing single operations is not modelled,
and taken as none.
"""

from functools import cache

from scripts.backtest import memory_bloom, memory_nanotron
from scripts.backtest.memory_backtest import MOST_LIKELY, Scored, never_fitted
from scripts.backtest.memory_rows import GIB, Measured, MeasuredRow, Which, published
from scripts.backtest.memory_stacks import DEEPSPEED_BF16, DEEPSPEED_FP16, NANOTRON
from scripts.backtest.rows import timed_rows
from scripts.backtest.unseen import below

TORCHTITAN = "torchtitan"


def torchtitan_rows() -> list[MeasuredRow]:
    """Timed runs of torchtitan, all of which have a figure of memory."""
    figures = {row["id"]: row["measured_mem_gb"] for row in published()}
    return [
        MeasuredRow(
            row.id,
            f"{row.size} @{row.workload.layout.world_size}: {row.workload.recompute}",
            row.fold,
            row.workload,
            float(figures[row.id]) * GIB,
            Measured.RESERVED,
            Which.FULLEST,
        )
        for row in timed_rows()
        if row.source == TORCHTITAN and figures[row.id]
    ]


@cache
def by_stack() -> dict[str, tuple[Scored, ...]]:
    """The figures of every other stack, by the constants of megatron-core."""
    bloom = memory_bloom.rows()
    found = {NANOTRON.name: never_fitted(memory_nanotron.rows())}
    for stack in (DEEPSPEED_FP16, DEEPSPEED_BF16):
        found[stack.name] = never_fitted([r for r in bloom if r.workload.stack == stack.name])
    return found | {f"{TORCHTITAN}, FSDP": never_fitted(torchtitan_rows())}


def borrowed_error() -> float:
    """The error that nine of ten of these figures stay below, where every stack counts the same."""
    return below([[one.error for one in own] for own in by_stack().values()], MOST_LIKELY)
