# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""BLOOM's experiments: Megatron-DeepSpeed with ZeRO-1 on A100, memory by nvidia-smi.

Facts that the rows lack follow by rule, fixed before anything was scored: where layers are not
stated, the multiple of the stages whose parameters, with the embedding or without, are nearest
to the model's name; layers go to stages evenly, except in the section "Rebalancing layers",
where the embedding and the output count as a layer each, and where they do not divide, where
DeepSpeed fills stages in order. Rows of dp 1 say zero1 too: there is nobody to share with.
"""

from scripts.backtest.memory_rows import (
    Measured,
    MeasuredRow,
    OutcomeRow,
    Row,
    Which,
    folds,
    label,
    measured_rows,
    of_source,
    ran_out,
    row_model,
    row_workload,
)
from seatrial.planning.workload import Workload

SOURCE = "BigScience BLOOM tr11"
REBALANCED = 'section "Rebalancing layers"'
HEADS = 64
"""Where a row does not state heads; they change only one layer's scores."""


def rows() -> list[MeasuredRow]:
    """All rows with a figure of memory."""
    return measured_rows(of_source(SOURCE), as_workload, Measured.PROCESS, Which.FULLEST)


def outcomes() -> list[OutcomeRow]:
    """The runs that did not fit."""
    return [
        OutcomeRow(row["id"], label(row), folds()[row["id"]], as_workload(row), fitted=False)
        for row in of_source(SOURCE)
        if ran_out(row)
    ]


def as_workload(row: Row) -> Workload:
    """One row for the planner."""
    layers = layers_of(row)
    hidden = int(row["hidden"])
    heads = int(row["heads"] or HEADS)
    if hidden % heads:
        heads = HEADS
    sizes = stage_layers(layers, int(row["pp"]), rebalanced=REBALANCED in row["notes"])
    bf16 = row["precision"] == "bf16"
    return row_workload(
        row,
        row_model(row, family="gpt", layers=layers, heads=heads, kv_heads=heads),
        sizes,
        f"megatron-deepspeed-{row['precision']}",
        gradient_bytes=4 if bf16 else 2,
        flash_attention=False,
    )


def layers_of(row: Row) -> int:
    """The stated layers, or those that the model's name and stages imply."""
    if row["layers"]:
        return int(row["layers"])
    hidden, stages = int(row["hidden"]), int(row["pp"])
    stated = float(row["params_b"]) * 1e9
    layer, embedding = 12 * hidden * hidden, int(row["vocab"]) * hidden
    # A whole model has 70 to 110 layers; with one stage any number would be a multiple.
    step = stages if stages > 1 else 12
    candidates = range(step, 130, step)
    return min(
        candidates,
        key=lambda n: min(abs(n * layer - stated), abs(n * layer + embedding - stated)),
    )


def stage_layers(layers: int, stages: int, *, rebalanced: bool) -> list[int]:
    """Layers of each stage."""
    if rebalanced and stages > 1 and (layers + 2) % stages == 0:
        share = (layers + 2) // stages
        return [share - 1, *[share] * (stages - 2), share - 1]
    share = -(-layers // stages)
    sizes: list[int] = []
    for _ in range(stages):
        sizes.append(min(share, layers - sum(sizes)))
    return sizes
