# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The six runs of GPT-2 large on H200 in the parallelism notes; none is ever fitted.

fp16 by its loss scale, so gradients have 2 bytes; dropout at Megatron's default; no distributed
optimizer. Memory is what nvidia-smi shows for the process, on the fuller of both GPUs.
"""

from scripts.backtest.memory_rows import (
    GIB,
    Measured,
    MeasuredRow,
    Row,
    Setting,
    Which,
    architecture,
    folds,
    label,
    of_source,
    workload,
)
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import Precision

SOURCE = "parallelism notes GPT2-large H200"


def rows() -> list[MeasuredRow]:
    """The six rows."""
    return [
        MeasuredRow(
            row["id"],
            label(row),
            folds()[row["id"]],
            _workload(row),
            float(row["measured_mem_gb"]) * GIB,
            Measured.PROCESS,
            Which.FULLEST,
        )
        for row in of_source(SOURCE)
    ]


def _workload(row: Row) -> Workload:
    """One row for the planner."""
    model = architecture(
        family="gpt",
        layers=int(row["layers"]),
        hidden_size=int(row["hidden"]),
        heads=int(row["heads"]),
        vocab_size=int(row["vocab"]),
        max_positions=int(row["seq_len"]),
    )
    stages = int(row["pp"])
    return workload(
        Setting(
            row=row,
            model=model,
            sizes=[model.layers // stages] * stages,
            dp_size=int(row["dp"]),
            micro_batches=1,
            sharding=Sharding.NONE,
            recompute=Recompute.NONE,
            precision=Precision.FP16,
            stack="megatron-core",
            gradient_bytes=2,
            hidden_dropout=True,
        )
    )
