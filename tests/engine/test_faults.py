# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The bar of the parity tests can fail: each deliberate fault is caught by it."""

from pathlib import Path

import pytest

from seatrial.engine_process.process import TrainingOutcome
from seatrial.engines.megatron.command_line import Arguments
from tests.engine.conftest import Figure
from tests.engine.test_parity import BAR, CP, SP
from tests.engine.toy import DENSE, SHARDED, initial_weights, largest_difference, start

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

FAULTS: dict[str, tuple[str, Arguments]] = {
    "unmarked-norm": ("norms not marked as sequence parallel", SP),
    "no-causal-mask": ("no causal mask under context parallelism", CP),
    "contiguous-chunks": ("contiguous chunks", CP),
    "unordered-keys": ("gathered keys not reordered", CP),
    "local-positions": ("positions counted on each rank", CP),
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Arguments, TrainingOutcome]:
    directory = tmp_path_factory.mktemp("dense")
    loading = initial_weights(directory, DENSE)
    return loading, start(directory, "one-rank", loading)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught(
    fault: str, tmp_path: Path, reference: tuple[Arguments, TrainingOutcome], figure: Figure
) -> None:
    loading, alone = reference
    outcome = start(tmp_path, "faulty", {**loading, **FAULTS[fault][1]}, 2, fault=fault)
    difference = largest_difference(alone, outcome)
    figure("faults", FAULTS[fault][0], f"{difference:.1e}")
    assert difference > BAR


def test_a_missing_optimizer_state_is_caught(tmp_path: Path, figure: Figure) -> None:
    where = str(tmp_path / "saved")
    model = {**DENSE, **SHARDED, "save-interval": 10}
    straight = start(tmp_path, "straight", {**model, "save": where}, 2)
    loading = {**model, "load": where, "ckpt-step": 10, "no-load-optim": True, "no-load-rng": True}
    outcome = start(tmp_path, "without", {**loading, "tensor-model-parallel-size": 2}, 2)
    difference = largest_difference(straight, outcome)
    figure("faults", "optimizer state not loaded", f"{difference:.1e}")
    assert difference > BAR
