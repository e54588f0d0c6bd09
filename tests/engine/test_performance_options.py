# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The twin executes the performance options that it claims to, and the layouts still agree."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.engine_process.process import worker_python
from seatrial.engines.engine import Trial
from seatrial.rehearsal.drills import DrillName, Rehearsal
from tests.conftest import MEGATRON
from tests.engine.test_planted_bugs import LLAMA, fork_drills, twin_of
from tests.faults.warm import Warm

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]

SHARED = (
    "model={dimensions: {family: llama, layers: 24, hidden_size: 1024, heads: 16, "
    "vocab_size: 32000, max_positions: 4096, moe: {experts: 16, top_k: 4, "
    "expert_ffn_hidden_size: 512, shared_expert_ffn_hidden_size: 512}}}"
)
CASES = {
    "fused_loss": (LLAMA, "tp", "cross-entropy-loss-fusion"),
    "shared_expert_overlap": (SHARED, "ep", "moe-shared-expert-overlap"),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Warm]:
    """The engine, loaded once for all trainings here."""
    warm = Warm(worker_python(MEGATRON), "tests.engine.warm_worker")
    yield warm
    warm.close()


@pytest.mark.parametrize("option", CASES)
def test_layouts_agree_with_the_option(
    option: str, engine: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_drills(engine, monkeypatch)
    model, axis, flag = CASES[option]
    twin = twin_of(model, axis, f"performance.{option}=true")
    arguments = MEGATRON.trial_arguments(twin.plan, Trial("", "", mock_tokenizer=True))
    assert arguments[flag] is True
    result = Rehearsal(twin, tmp_path, seed=1).run(DrillName.RESHARD)
    print(f"{option}, {axis}: {result.said}")
    assert result.ok
