# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Llama 3 70B in fp8 on H100, from Megatron-Bridge's notes on memory; none is ever fitted.

The recipe keeps weights in 8 bits only and reduces gradients in bf16; sequence parallelism and the
distributed optimizer are on. Which rank was measured is not stated: the fullest stage is taken. Of
the source's rows these are left out: one that ran out of memory, hybrid models, models whose
dimensions are not given, and one that does not state what was computed again.
"""

from scripts.backtest.memory_rows import (
    GIB,
    Measured,
    MeasuredRow,
    Row,
    Which,
    measured_rows,
    of_source,
    row_model,
    row_workload,
)
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding

SOURCE = "Megatron-Bridge skills"
MODEL = "LLAMA3-70B"
GIGABYTE = 1e9
"""The unit of this source."""


def rows() -> list[MeasuredRow]:
    """The four rows that ran."""
    ran = [
        row | {"measured_mem_gb": str(float(row["measured_mem_gb"]) * GIGABYTE / GIB)}
        for row in of_source(SOURCE)
        if row["model"] == MODEL and "OOM" not in row["notes"]
    ]
    return measured_rows(ran, _workload, Measured.ALLOCATED, Which.FULLEST)


def _workload(row: Row) -> Workload:
    """One row for the planner."""
    model = row_model(row, family="llama")
    stages = int(row["pp"])
    return row_workload(
        row,
        model,
        [model.layers // stages] * stages,
        "megatron-core",
        vp_size=int(row["vp"]),
        sharding=Sharding.OPTIMIZER,
        sequence_parallel=True,
        gradient_bytes=2,
        narrow_weights=True,
    )
