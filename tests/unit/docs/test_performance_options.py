# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The table of performance options fails if the engine refuses one, or one changes nothing."""

from copy import deepcopy
from dataclasses import replace

import pytest

from backtest.tuned_layouts import Compared, compared, layout_rows
from backtest.tuned_options import Difference, configurations
from docs.tools.performance_options import (
    Change,
    engine_answers,
    open_points,
    option_table,
    unexplained,
)
from seatrial.catalog.catalog import Catalog
from seatrial.planning.options import NAMES

PREDICTED: dict[str, dict[str, Change | None]] = {
    "a model": {name: Change(0.01, 0.0) for name in NAMES}
}


def test_the_recorded_answers_are_fine() -> None:
    answers = engine_answers()
    assert open_points(PREDICTED, [], answers) == []
    (row,) = [
        line
        for line in option_table(PREDICTED, answers).splitlines()
        if line.startswith("| `cuda_graphs`")
    ]
    accepted = answers["cuda_graphs"]["accepted"]
    assert f"| {accepted} of {accepted}" in row
    assert "| 93 | with experts fitted" in row


@pytest.fixture(scope="module")
def layouts() -> list[Compared]:
    catalog = Catalog()
    rows = [row for row in configurations() if row["model"] in ("llama3-8b", "qwen3-30b-a3b")]
    return [compared(row, catalog) for row in rows]


def test_layouts_beside_published_ones_are_explained(layouts: list[Compared]) -> None:
    lines = {f"{line[0]}, {line[1]}": line for line in layout_rows(layouts)}
    assert lines["llama3-8b, 8 B200, fp8"][-1] == "equal"
    assert "from less recomputation" in lines["llama3-8b, 8 H100-80GB, fp8"][-1]
    beyond = lines["qwen3-30b-a3b, 8 GB300, mxfp8"]
    assert beyond[2] == "tp 1 · pp 1 · ep 8, mb 8, recompute none"
    assert beyond[-1].startswith("theirs needs NVLink between nodes, which pods do not get; ")
    assert "ours keeps experts inside a node" in lines["qwen3-30b-a3b, 16 H100-80GB, fp8"][-1]
    assert unexplained(layouts) == []


def test_a_faster_published_layout_without_a_reason_is_an_open_point(
    layouts: list[Compared],
) -> None:
    first = next(each for each in layouts if each.machines == "8 H100-80GB, fp8")
    swapped = replace(first, theirs=first.ours, ours=first.theirs)
    assert swapped.ratio < 1
    assert unexplained([swapped]) == ["not explained: llama3-8b, 8 H100-80GB, fp8"]


def test_each_open_point_is_named() -> None:
    answers = deepcopy(engine_answers())
    answers["fused_loss"]["refused"] = 2
    answers["moments"] = dict.fromkeys(answers["moments"], 0)
    predicted = deepcopy(PREDICTED)
    predicted["a model"]["tensor_overlap"] = Change(0.0, 0.0)
    difference = Difference("llama", "8 h100", "fused_loss", "true", "false", "")
    found = open_points(predicted, [difference], answers)
    assert found[:3] == [
        "tensor_overlap: it changes no prediction.",
        "fused_loss: the engine refused 2 runs with it.",
        "moments: the engine was not asked about a run with it.",
    ]
    assert found[3].startswith("not explained: Difference(model='llama'")
