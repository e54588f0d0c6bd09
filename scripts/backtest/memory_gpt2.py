# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The six runs of GPT-2 large on H200 in the parallelism notes; none is ever fitted.

fp16 by its loss scale, so gradients have 2 bytes; dropout at Megatron's default; no distributed
optimizer. Memory is what nvidia-smi shows for the process, on the fuller of both GPUs.
"""

from scripts.backtest.memory_rows import (
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
from seatrial.spec.training import Precision

SOURCE = "parallelism notes GPT2-large H200"


def rows() -> list[MeasuredRow]:
    """The six rows."""
    return measured_rows(of_source(SOURCE), _workload, Measured.PROCESS, Which.FULLEST)


def _workload(row: Row) -> Workload:
    """One row for the planner."""
    model = row_model(row, family="gpt")
    stages = int(row["pp"])
    return row_workload(
        row,
        model,
        [model.layers // stages] * stages,
        "megatron-core",
        micro_batches=1,
        precision=Precision.FP16,
        gradient_bytes=2,
        hidden_dropout=True,
    )
