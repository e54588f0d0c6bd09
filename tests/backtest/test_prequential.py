# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import hashlib
from pathlib import Path

import pytest

from backtest.newer_models import predicted, runs
from backtest.prequential import RECORDS, read_record, score
from seatrial.engines.registry import ENGINES
from seatrial.planning.engine_limits import UnseenRuns
from seatrial.planning.timing.quantities import quantities
from seatrial.spec.loader import loads

TINY = """\
apiVersion: seatrial.dev/v1alpha1
name: tiny
model: {preset: gpt3-125m}
data: {mock: true}
training: {steps: 10}
cluster: {profile: eks, node_type: p5.48xlarge, nodes: 1}
"""
FIRST = RECORDS / "2026-11-124b130.csv"
NEWER = RECORDS / "2026-11-6cce1b3.csv"
UNSEEN = RECORDS / "2026-11-8d8ca26.csv"
DIGESTS = {
    FIRST.name: "86fa98dbdc421373a20b574bdd2e394b6b991ab9a4ef9e223cba888eec8ac7f2",
    NEWER.name: "910cf3a0fe3a9c2f62d96b5924e69b52958dbb00da95787268ff9f6cd5ae1d6b",
    UNSEEN.name: "a6657e757fe1282764e53f05c5569fd40ef1167cfe4fe42f6c0460014a8429a3",
}
"""A record counts because it was made before the planner saw the runs: it must not change."""


def test_the_records_are_as_they_were_made() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in RECORDS.glob("*.csv")
    }
    assert found == DIGESTS


def test_the_first_record_scores_as_it_was_reported() -> None:
    predictions = read_record(FIRST)
    megatron = score("", [row for row in predictions if row.engine == "megatron"])
    foundry = score("", [row for row in predictions if row.engine == "llm-foundry"])
    assert len(predictions) == 207
    assert (megatron.scored, megatron.inside, round(megatron.median_error, 2)) == (119, 87, 0.10)
    assert (foundry.scored, foundry.inside) == (84, 83)


def test_the_record_of_newer_models_scores_as_it_was_reported() -> None:
    rows = [row for row in read_record(NEWER) if row.source != "DeepSeek-V3 report"]
    found = score("", rows)
    assert (found.scored, found.inside, round(found.median_error, 2)) == (28, 25, 0.14)
    page = (Path(__file__).parents[2] / "docs" / "backtest.md").read_text()
    assert "Of 28 runs, 25 are within the printed range. The median error is 14 %." in page


def test_the_operations_of_newer_models_are_those_that_were_published() -> None:
    rated = [run for run in runs() if "model_tflops" in run.facts]
    assert {run.facts["model"] for run in rated} == {run.facts["model"] for run in runs()}
    for run in rated:
        rate = quantities(run.workload).model_flops / run.seconds / run.facts["gpus"]
        assert rate / 1e12 == pytest.approx(run.facts["model_tflops"], rel=5e-4)


def test_the_memory_of_latent_attention_is_near_what_was_measured() -> None:
    errors = [found.memory_error for found in map(predicted, runs())]
    measured = [abs(error) for error in errors if error is not None]
    assert len(measured) == 6
    assert max(measured) < 0.02


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_the_plan_states_the_coverage_that_was_measured(engine: str) -> None:
    rows = [row for row in read_record(FIRST) if row.engine == engine]
    measured = score("", rows)
    limits = ENGINES[engine].limits(loads(TINY + f"engine: {{name: {engine}}}\n", "run.yaml").spec)
    assert limits.unseen == UnseenRuns(measured.inside, measured.scored)


def test_the_pages_state_the_same_coverage() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert "73% of 119 runs" in (docs / "accuracy.md").read_text()
    assert "Of 119 Megatron runs, 87 (73 %) are within" in (docs / "backtest.md").read_text()


def test_a_run_without_a_prediction_is_not_scored(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text(
        "source,model,gpu,error,note\n"
        "A,gpt3-5b,A100,,not planned\n"
        "A,gpt3-5b,A100,+0.30,stated nine of ten ±12%\n"
    )
    result = score("A", read_record(path))
    assert (result.rows, result.scored, result.inside, result.median_error) == (2, 1, 0, 0.30)
