# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs with Megatron's FSDP resume bit-equal, and their layouts and checkpoints agree."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.engine_process.process import worker_python
from seatrial.rehearsal.drills import DrillName, Rehearsal
from tests.conftest import MEGATRON
from tests.engine.test_planted_bugs import LLAMA, MOE, fork_drills, twin_of
from tests.faults.warm import Warm

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

FSDP = "parallelism.sharding=fsdp"


@pytest.fixture(scope="module")
def engine() -> Iterator[Warm]:
    """The engine, loaded once for all trainings here."""
    warm = Warm(worker_python(MEGATRON), "tests.engine.warm_worker")
    yield warm
    warm.close()


@pytest.mark.parametrize(
    ("model", "axis"),
    [
        pytest.param(LLAMA, "dp"),
        pytest.param(LLAMA, "tp", marks=pytest.mark.slow),
        pytest.param(LLAMA, "cp", marks=pytest.mark.slow),
        pytest.param(MOE, "dp", marks=pytest.mark.slow),
    ],
)
def test_fsdp_resumes_bit_equal_and_reshards(
    model: str, axis: str, engine: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_drills(engine, monkeypatch)
    twin = twin_of(model, axis, FSDP)
    rehearsal = Rehearsal(twin, tmp_path, seed=1)
    results = [rehearsal.run(drill) for drill in (DrillName.KILL, DrillName.RESHARD)]
    for result in results:
        print(f"fsdp, {axis}, {result.drill}: {result.said}")
    assert [result.said for result in results if not result.ok] == []
    assert "bitwise identical" in results[0].said
    assert "fsdp_dtensor" in MEGATRON.command_line(MEGATRON.arguments(twin.plan))
