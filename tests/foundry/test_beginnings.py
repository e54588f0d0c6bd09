# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run of LLM Foundry is told to begin with is verified, or looked through, or refused."""

import shutil
from pathlib import Path

import pytest

from seatrial.checkpoints.naming import RECORD
from seatrial.engine_process.process import TrainingOutcome
from seatrial.engines.engine import Arguments
from seatrial.engines.llm_foundry.checkpoints import WHOLE_FILE
from tests.foundry.test_export import Case, arguments_of, trained
from tests.foundry.warm import WarmFoundry
from tests.unit.checkpoints.made import archive, crafted_whole, flip
from tests.unit.checkpoints.test_composer import wanted
from tests.unit.checkpoints.test_pickles import Trap

pytestmark = [pytest.mark.engine, pytest.mark.timeout(7200)]

REFUSED = 82


def begun(
    warm: WarmFoundry, directory: Path, case: Case, load: Path, ranks: int = 1
) -> TrainingOutcome:
    """A run that begins with the weights of a path."""
    other = directory / f"from-{load.name}-{ranks}"
    other.mkdir()
    told: Arguments = {"load_path": str(load), "load_weights_only": True, "max_duration": "2ba"}
    return warm.start(other, "training", arguments_of(case, other) | told, ranks)


@pytest.mark.parametrize("sharding", ["fsdp", "none"])
def test_only_what_is_good_is_loaded(sharding: str, tmp_path: Path, warm: WarmFoundry) -> None:
    case = Case("MPT", sharding, "", {})
    trained(tmp_path, case, warm)
    saved = tmp_path / "saved"
    # Sharded ones are put together for a rank that is alone.
    assert begun(warm, tmp_path, case, saved / "ba6").code == 0
    assert begun(warm, tmp_path, case, saved, ranks=2).code == 0
    whole = saved / "ba4" / WHOLE_FILE
    flip(next((saved / "ba4").glob("__0_0.distcp")) if sharding == "fsdp" else whole)
    damaged = begun(warm, tmp_path, case, saved / "ba4")
    assert damaged.code == REFUSED
    assert "ST-CHECKPOINT-007" in damaged.tail
    foreign = tmp_path / "foreign"
    shutil.copytree(saved / "ba6", foreign)
    (foreign / RECORD).unlink()
    load = foreign if sharding == "fsdp" else foreign / WHOLE_FILE
    assert begun(warm, tmp_path, case, load).code == 0


def test_a_pickle_that_runs_code_is_not_loaded(tmp_path: Path, warm: WarmFoundry) -> None:
    trap = tmp_path / "theirs.pt"
    trap.write_bytes(archive({"state": Trap(tmp_path / "sprung")}))
    refused = begun(warm, tmp_path, Case("MPT", "none", "", {}), trap)
    assert refused.code == REFUSED
    assert "ST-CHECKPOINT-009" in refused.tail
    assert not (tmp_path / "sprung").exists()
    # A record beside it makes it no better: whoever writes the one can write the other.
    setup = wanted("parallelism.sharding=none")
    ours = crafted_whole(tmp_path / "ours", 4, trap.read_bytes(), setup)
    refused = begun(warm, tmp_path, Case("MPT", "none", "", {}), ours)
    assert refused.code == REFUSED
    assert "ST-CHECKPOINT-009" in refused.tail
    assert not (tmp_path / "sprung").exists()
