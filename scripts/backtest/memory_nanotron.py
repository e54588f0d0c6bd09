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

SOURCE = "nanotron ultrascale"
TIED = ("Llama-1.34B", "Llama-3.57B")


def rows() -> list[MeasuredRow]:
    """All rows of the sweep."""
    return measured_rows(of_source(SOURCE), _workload, Measured.RESERVED, Which.FULLEST)


def _workload(row: Row) -> Workload:
    """One row for the planner."""
    model = row_model(row, family="llama", tied_embeddings=row["model"] in TIED)
    sizes = by_cost(model.layers, int(row["pp"]), _output_cost(row))
    return row_workload(row, model, sizes, "nanotron", vocab_multiple=1)


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
