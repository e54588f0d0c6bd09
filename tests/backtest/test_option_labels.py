# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The published runs whose options are known, and fits of one number per option."""

from dataclasses import replace
from math import log
from statistics import median

import pytest

from backtest.fitting import Term, fit, predict, stacked
from backtest.groups import generation_of, nemo_dense
from backtest.option_fit import whole_steps
from backtest.option_labels import (
    LISTED,
    counts,
    labelled,
    labels,
    options_of,
    pairs,
    reference,
    shipped,
)
from backtest.rows import Row, timed_rows
from seatrial.planning.timing.option_effects import EXPERT_GRAPHS, fitted_options
from seatrial.planning.timing.rates import Rates
from seatrial.spec.performance import CudaGraphs, TokenDispatcher


def test_each_label_is_of_a_row_that_is_predicted() -> None:
    assert len(labels()) == len(labelled()) == 150
    assert all(row.source == "Megatron-Bridge perf summary" for row in labelled())


def test_the_labels_are_counted_by_option() -> None:
    found = counts()
    assert set(found) == set(LISTED)
    assert found["expert_overlap"] == (26, 67)
    assert found["activation_offload"] == (8, 142)
    assert sum(counts(experts=True)["cuda_graphs"]) == sum(row.moe for row in labelled())


def test_the_options_of_a_row_are_its_labels() -> None:
    for row in labelled():
        options = options_of(row)
        assert {name: getattr(options, name) for name in labels()[row.id]} == labels()[row.id]


def test_the_fitted_options_are_those_of_most_rows_with_the_newest_constants() -> None:
    newest = [row for row in labelled() if options_of(row).cuda_graphs is CudaGraphs.STEP]
    assert {row.workload.hardware.accelerator for row in newest} == {"b300", "gb200", "gb300"}
    for row in newest:
        assert reference(row) == fitted_options(row.workload)
    (older,) = {
        (reference(row).cuda_graphs, reference(row).token_dispatcher)
        for row in labelled()
        if row.moe and generation_of(row) == "blackwell" and row.release < "26.06"
    }
    assert older == (CudaGraphs.LAYERS, TokenDispatcher.HYBRIDEP)


def test_the_shipped_constants_predict_experts_better_with_their_options() -> None:
    def errors(*, with_labels: bool) -> list[float]:
        return [
            abs(each.error)
            for each in shipped(with_labels=with_labels)
            if each.row.moe and generation_of(each.row) == "blackwell"
        ]

    assert median(errors(with_labels=True)) < 0.5 * median(errors(with_labels=False))


@pytest.mark.slow
def test_the_effect_of_whole_step_graphs_is_the_one_between_the_releases() -> None:
    fitted = {name.strip("`"): float(factor) for name, factor, _ in whole_steps()}
    assert fitted == EXPERT_GRAPHS[CudaGraphs.STEP]


def test_a_term_finds_an_effect_that_was_planted() -> None:
    def has_it(row: Row) -> float:
        return float(int(row.id) % 2)

    rows = [row for row in timed_rows() if nemo_dense("hopper")(row)][:60]
    usual = predict(stacked(rows), Rates())
    slower = predict(stacked(rows), replace(Rates(), matrix_memory=Rates().matrix_memory / 2))
    made = [
        replace(row, seconds=float(slower[place] if has_it(row) else usual[place]))
        for place, row in enumerate(rows)
    ]
    found = fit(made, {}, Rates(), terms=[Term({"matrix_memory": 1.0}, has_it)])
    ((_, number),) = found.terms
    assert number == pytest.approx(-log(2), abs=0.1)
    for row, measured in ((row, row.seconds) for row in made[:4]):
        assert predict(stacked([row]), found.of(row))[0] == pytest.approx(measured, rel=0.02)


def test_runs_with_expert_overlap_are_faster_but_differ_in_other_options_too() -> None:
    found = pairs("expert_overlap")
    assert len(found) == 7
    assert all(pair.on < pair.off and pair.others for pair in found)
    assert {other for pair in found for other in pair.others} == {
        "cuda_graphs",
        "token_dispatcher",
    }
