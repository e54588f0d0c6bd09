# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs with Muon resume bit-equal, and their layouts and checkpoints agree.

The worker's environment lacks Muon's package: these tests install it into the cache, next to it.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.engine_process.process import worker_python
from seatrial.rehearsal.drills import DrillName, Rehearsal
from tests.conftest import MEGATRON
from tests.engine.test_planted_bugs import DEEP_GPT, LLAMA, MOE, fork_drills, twin_of
from tests.faults.warm import Warm

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]

SCRIPT = Path(__file__).parents[2] / "scripts" / "environment.sh"
CASES = {
    "tp": (LLAMA, "tp"),
    "pp": (DEEP_GPT, "pp"),
    "cp": (LLAMA, "cp"),
    "dp": (LLAMA, "dp"),
    "ep": (MOE, "ep"),
    "latent": ("model.preset=moonlight-16b-a3b", "tp"),
}


def muon_packages() -> str:
    """Install requirements/muon.txt unless the cache has it, and return the folder."""
    created = subprocess.run([SCRIPT, "create", "muon"], capture_output=True, text=True)
    if created.returncode:
        pytest.fail(
            "These tests need requirements/muon.txt, and pip cannot install it. Make its package "
            f"index reachable, or run `{SCRIPT.name} create muon` where it is: {created.stderr}",
            pytrace=False,
        )
    return subprocess.check_output([SCRIPT, "path", "muon"], text=True).strip()


@pytest.fixture(scope="module")
def engine() -> Iterator[Warm]:
    """The engine with Muon, loaded once for all trainings here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", muon_packages(), prepend=os.pathsep)
        warm = Warm(worker_python(MEGATRON), "tests.engine.warm_worker")
        yield warm
        warm.close()


@pytest.mark.parametrize("case", CASES)
def test_muon_resumes_bit_equal_and_reshards(
    case: str, engine: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_drills(engine, monkeypatch)
    twin = twin_of(*CASES[case], "training.optimizer.name=muon")
    rehearsal = Rehearsal(twin, tmp_path, seed=1)
    results = [rehearsal.run(drill) for drill in (DrillName.KILL, DrillName.RESHARD)]
    for result in results:
        print(f"muon, {case}, {result.drill}: {result.said}")
    assert [result.said for result in results if not result.ok] == []
    assert "bitwise identical" in results[0].said
    assert "--optimizer muon" in " ".join(MEGATRON.command_line(MEGATRON.arguments(twin.plan)))
