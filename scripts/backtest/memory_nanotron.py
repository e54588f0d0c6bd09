# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Nanotron's sweep (the Ultra-Scale Playbook): best layouts of Llama-like models on H100.

Which embeddings are tied follows from the stated parameters: 1.34 B and 3.57 B come out with
tied embeddings, 8.86 B and 80 B with separate ones. Nanotron shares its decoder layers out to
stages by their cost, the output projection counted in; with vocabularies of 131,072 that takes
layers from the last stage. Its log has live and reserved memory; the figure does not say which
it shows, and live tensors as the code counts them fall short of it by a fifth of the activations:
it is taken as reserved.
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

SOURCE = "nanotron ultrascale"
TIED = ("Llama-1.34B", "Llama-3.57B")


def rows() -> list[MeasuredRow]:
    """All rows of the sweep."""
    return [
        MeasuredRow(
            row["id"],
            label(row),
            folds()[row["id"]],
            _workload(row),
            float(row["measured_mem_gb"]) * GIB,
            Measured.RESERVED,
            Which.FULLEST,
        )
        for row in of_source(SOURCE)
    ]


def _workload(row: Row) -> Workload:
    """One row for the planner."""
    model = architecture(
        family="llama",
        layers=int(row["layers"]),
        hidden_size=int(row["hidden"]),
        ffn_hidden_size=int(row["ffn_hidden"]),
        heads=int(row["heads"]),
        kv_heads=int(row["kv_heads"]),
        vocab_size=int(row["vocab"]),
        max_positions=int(row["seq_len"]),
        tied_embeddings=row["model"] in TIED,
    )
    dp = int(row["dp"])
    return workload(
        Setting(
            row=row,
            model=model,
            sizes=by_cost(model.layers, int(row["pp"]), _output_cost(row)),
            dp_size=dp,
            micro_batches=int(row["global_batch"]) // int(row["micro_batch"]) // dp,
            sharding=Sharding.OPTIMIZER if row["sharding"] == "zero1" else Sharding.NONE,
            recompute=Recompute.NONE,
            precision=Precision.BF16,
            stack="nanotron",
            vocab_multiple=1,
        )
    )


def _output_cost(row: Row) -> float:
    """The output projection's cost in layers, by its matrix product."""
    hidden = int(row["hidden"])
    layer = 4 * hidden * hidden + 3 * hidden * int(row["ffn_hidden"])
    return hidden * int(row["vocab"]) / layer


def by_cost(layers: int, stages: int, output: float) -> list[int]:
    """Layers of each stage by nanotron's rule (`models/base.py`, build_model).

    A stage takes blocks until their cost, counted from the first, is above its share; the block
    that crosses the line still belongs to it.
    """
    share = (layers + output) / stages
    sizes = [0] * stages
    stage = 0
    for placed in range(1, layers + 1):
        sizes[stage] += 1
        if placed > share * (stage + 1) and stage < stages - 1:
            stage += 1
    return sizes
