# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The table of performance options fails if the engine refuses one, or one changes nothing."""

from copy import deepcopy

from backtest.tuned_options import Difference
from docs.tools.performance_options import Change, engine_answers, open_points, option_table
from seatrial.planning.options import NAMES

PREDICTED = {"a model": {name: Change(0.01, 0.0) for name in NAMES}}


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


def test_each_open_point_is_named() -> None:
    answers = deepcopy(engine_answers())
    answers["fused_loss"]["refused"] = 2
    answers["moments"] = dict.fromkeys(answers["moments"], 0)
    predicted = deepcopy(PREDICTED)
    predicted["a model"]["tensor_overlap"] = Change(0.0, 0.0)
    unexplained = Difference("llama", "8 h100", "fused_loss", "true", "false", "")
    found = open_points(predicted, [unexplained], answers)
    assert found[:3] == [
        "tensor_overlap: it changes no prediction.",
        "fused_loss: the engine refused 2 runs with it.",
        "moments: the engine was not asked about a run with it.",
    ]
    assert found[3].startswith("not explained: Difference(model='llama'")
