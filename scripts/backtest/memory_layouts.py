# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""AlephAlpha's sweep of layouts (arXiv 2311.05610): what ran and what did not fit on A100 80 GB.

They ran their own framework, since published as Aleph-Alpha/scaling. What it does that memory
depends on: gradients in bf16 beside bf16 weights, master weights and moments shared out over dp
(`core/optimizer/parameter_group.py`); logits gathered whole on every tp rank and turned to fp32
(`core/nn/linear/column_parallel_linear.py`, `transformer/model/losses/cross_entropy.py`);
embedding, final norm and output projection count as a layer each when layers are dealt to
stages, and the first stages get the rest (`core/nn/parallel_module/pipeline_partitioning.py`);
recomputation is per layer.
"""

from scripts.backtest.memory_rows import (
    OutcomeRow,
    Row,
    folds,
    label,
    of_source,
    ran_out,
    row_model,
    row_workload,
)
from seatrial.planning.workload import Workload

SOURCE = "AlephAlpha parallel layouts"
FUSED_NORM = "scaling-fused-norm"
"""flash-attention 2 and its RMS-norm kernel."""
PLAIN_NORM = "scaling"
"""flash-attention 2, norms of plain torch operations."""
FIRST_FLASH = "scaling-flash-1"
"""flash-attention 1, norms of plain torch operations."""
OTHER_ITEMS = 3
"""Embedding, final norm and output projection, each dealt out as if it were a layer."""


def rows() -> list[OutcomeRow]:
    """The rows with a flash kernel."""
    return [
        OutcomeRow(
            row["id"],
            f"{label(row)} · {kernel(row)}, {row['seq_len']}",
            folds()[row["id"]],
            _workload(row),
            not ran_out(row),
        )
        for row in of_source(SOURCE)
        if "flash" in kernel(row)
    ]


def kernel(row: Row) -> str:
    """The attention and norm kernels as the source names them."""
    return row["notes"].split(";")[0].removeprefix("kernel: ")


def stack(row: Row) -> str:
    """The constants that hold for a row's kernels."""
    if "RMS" in kernel(row):
        return FUSED_NORM
    return PLAIN_NORM if "attention2" in kernel(row) else FIRST_FLASH


def stage_layers(layers: int, stages: int) -> list[int]:
    """Layers of each stage: items dealt evenly, the first stages getting what is left over."""
    share, more = divmod(layers + OTHER_ITEMS, stages)
    items = [share + (stage < more) for stage in range(stages)]
    if stages == 1:
        return [layers]
    items[0] -= 1
    items[-1] -= 2
    return items


def _workload(row: Row) -> Workload:
    """One row for the planner."""
    model = row_model(row, family="llama")
    sizes = stage_layers(model.layers, int(row["pp"]))
    return row_workload(row, model, sizes, stack(row), gradient_bytes=2, vocab_multiple=1)
