# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every form of parallelism trains as one rank does: the same data, the same initial weights."""

from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.engine_process.process import TrainingOutcome
from seatrial.engines.megatron.command_line import Arguments
from tests.engine.conftest import Figure
from tests.engine.toy import (
    DENSE,
    LLAMA,
    MOE,
    SHARDED,
    STEPS,
    initial_weights,
    largest_difference,
    start,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

BAR = 1e-6
TP: Arguments = {"tensor-model-parallel-size": 2}
SP: Arguments = {**TP, "sequence-parallel": True}
PP: Arguments = {"pipeline-model-parallel-size": 2}
CP: Arguments = {"context-parallel-size": 2}
EP: Arguments = {"expert-model-parallel-size": 2}

LAYOUT = "pipeline-model-parallel-layout"
PREDICTING: Arguments = {**LLAMA, "mtp-num-layers": 1, "mtp-loss-scaling-factor": 0.1}

LAYOUTS: dict[str, tuple[Arguments, int, Arguments]] = {
    "dp 2": (DENSE, 2, {}),
    "dp 2, distributed optimizer": (DENSE, 2, SHARDED),
    "tp 2": (DENSE, 2, TP),
    "tp 2, sequence parallel": (DENSE, 2, SP),
    "pp 2": (DENSE, 2, PP),
    "pp 2, vp 2": (DENSE, 2, {**PP, "num-virtual-stages-per-pipeline-rank": 2}),
    "pp 2, custom layout": (DENSE, 2, {**PP, LAYOUT: "Et|tttL"}),
    "pp 2, vp 2, custom layout with an empty chunk": (DENSE, 2, {**PP, LAYOUT: "Ett||tt|L"}),
    "pp 2, custom layout of experts, last stage without layers": (MOE, 2, {**PP, LAYOUT: "Et*4|L"}),
    "pp 3, custom layout, multi-token prediction before the last stage": (
        PREDICTING,
        3,
        {"pipeline-model-parallel-size": 3, LAYOUT: "Ett|ttm|L"},
    ),
    "cp 2": (DENSE, 2, CP),
    "cp 2, tp 2, sequence parallel": (DENSE, 4, {**CP, **SP}),
    "cp 2, RoPE, GQA, RMSNorm, SwiGLU": (LLAMA, 2, CP),
    "ep 2": (MOE, 2, EP),
    "ep 2, tp 2, sequence parallel": (MOE, 4, {**EP, **SP}),
    "tp 2, pp 2, dp 2, sequence parallel, distributed optimizer": (
        DENSE,
        8,
        {**SP, **PP, **SHARDED},
    ),
}


SHORT = ("tp 2, sequence parallel", "pp 2, custom layout", "cp 2", "ep 2")
"""The layouts that every run of CI tries; `make engine` tries all."""


def cases() -> list[object]:
    """The layouts, those beyond the short list marked as slow."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name in SHORT else slow) for name in LAYOUTS]


Reference = Callable[[Arguments], tuple[Arguments, TrainingOutcome]]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """For a model, what loads its initial weights, and its training on one rank; made once."""
    made: dict[int, tuple[Arguments, TrainingOutcome]] = {}

    def of(model: Arguments) -> tuple[Arguments, TrainingOutcome]:
        if id(model) not in made:
            directory = tmp_path_factory.mktemp("reference")
            loading = initial_weights(directory, model)
            made[id(model)] = (loading, start(directory, "one-rank", loading))
        return made[id(model)]

    return of


@pytest.mark.parametrize("name", cases())
def test_a_layout_trains_as_one_rank(
    name: str, tmp_path: Path, reference: Reference, figure: Figure
) -> None:
    model, processes, layout = LAYOUTS[name]
    loading, alone = reference(model)
    outcome = start(tmp_path, "layout", {**loading, **layout}, processes)
    assert len(outcome.losses()) == STEPS
    difference = largest_difference(alone, outcome)
    figure("parity", name, str(processes), f"{difference:.1e}")
    assert difference <= BAR


@pytest.mark.slow
def test_a_checkpoint_of_a_custom_layout_loads_into_one_rank(
    tmp_path: Path, reference: Reference
) -> None:
    """Layers are numbered over the whole model in a checkpoint, whatever stage saved them."""
    loading, alone = reference(DENSE)
    half, where = STEPS // 2, str(tmp_path / "saved")
    saving: Arguments = {**PP, LAYOUT: "E|tt|t|tL", "save": where, "save-interval": half}
    start(tmp_path, "custom", {**loading, **saving, "exit-interval": half}, 2)
    rest = start(tmp_path, "alone", {**DENSE, "load": where})
    losses = alone.losses()
    assert rest.losses().keys() == {step for step in losses if step > half}
    assert largest_difference(alone, rest) <= BAR
