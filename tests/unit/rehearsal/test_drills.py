# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the drills make of a training's outcome; the engine is stood in for by outcomes."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.cli import rehearse as rehearse_command
from seatrial.cli.main import app
from seatrial.cli.rehearse import TimeLeft
from seatrial.engine_process.process import Training, TrainingOutcome
from seatrial.engine_process.weights import Logits, WeightsError
from seatrial.engines.engine import Engine
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.rehearsal import drills
from seatrial.rehearsal.twin import STEPS
from tests.conftest import SPEC


def outcome(
    steps: range, loss: Callable[[int], float] = lambda step: 10 - step / 10
) -> TrainingOutcome:
    """A training that went well."""
    values = {"grad_norm": 1.0, "learning_rate": 1e-3, "skipped": False, "seconds": 0.1}
    events = [Event(EventKind.STEP, step, 0.0, values | {"loss": loss(step)}) for step in steps]
    return TrainingOutcome(0, 1.0, tuple(events))


def rehearse(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    drill: str,
    answer: Callable[[Training], TrainingOutcome],
    differing: list[str] | None = None,
    overrides: tuple[str, ...] = (),
) -> tuple[int, str]:
    """The command, with outcomes in place of trainings: its exit code and what it said."""
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/bin/true")
    monkeypatch.setattr(drills, "train", lambda training, *rest: answer(training))
    monkeypatch.setattr(drills, "differing_tensors", lambda *paths, engine: (40, differing or []))
    file = tmp_path / "run.yaml"
    file.write_text(SPEC)
    result = CliRunner().invoke(
        app, ["rehearse", str(file), "--drill", drill, "--seed", "1", *overrides]
    )
    return result.exit_code, result.output


def killed_or(training: Training, resumed: TrainingOutcome) -> TrainingOutcome:
    if training.kill:
        return TrainingOutcome(1, 1.0)
    return resumed if training.name == "resumed" else outcome(range(1, 21))


def test_a_training_that_goes_well_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, said = rehearse(monkeypatch, tmp_path, "train", lambda t: outcome(range(1, 21)))
    assert (code, "20 steps, loss 9.90 → 8.00" in said) == (0, True)


def test_what_trainings_leave_is_deleted_except_their_logs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def leaves(training: Training) -> TrainingOutcome:
        for name in ("straight", "mock", "cache-of-an-engine"):
            (training.directory / name / "inner").mkdir(parents=True)
        training.log.write_text("step 1")
        return outcome(range(1, 21))

    rehearse(monkeypatch, tmp_path, "train", leaves)
    (twin,) = tmp_path.rglob("twin-1")
    assert [path.name for path in twin.iterdir()] == ["straight.log"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            TrainingOutcome(1, 1.0, tail="RuntimeError: shapes differ"),
            "RuntimeError: shapes differ",
        ),
        (TrainingOutcome(-9, 240.0, timed_out=True), "did not finish within 240 s"),
        (outcome(range(1, 15)), "14 of 20 steps"),
        (outcome(range(1, 21), lambda step: math.nan), "20 without a finite loss"),
    ],
)
def test_a_training_that_fails_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: TrainingOutcome, said: str
) -> None:
    code, output = rehearse(monkeypatch, tmp_path, "train", lambda training: answer)
    assert code == 1
    assert said in output
    assert "FAILED" in output


@pytest.mark.parametrize(
    ("resumed", "differing", "said"),
    [
        (outcome(range(1, 21)), [], "resumed at step 1, not 11"),
        (outcome(range(11, 21), lambda step: 9.0), [], "of 10 steps differ"),
        (outcome(range(11, 21)), ["embedding"], "1 of 40 tensors in the checkpoint differ"),
        (TrainingOutcome(1, 1.0, tail="no checkpoint"), [], "no checkpoint"),
    ],
)
def test_a_resume_that_differs_ends_with_1(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    resumed: TrainingOutcome,
    differing: list[str],
    said: str,
) -> None:
    code, output = rehearse(
        monkeypatch, tmp_path, "kill", lambda t: killed_or(t, resumed), differing
    )
    assert code == 1
    assert said in " ".join(output.split())


def test_an_equal_resume_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, output = rehearse(
        monkeypatch, tmp_path, "kill", lambda t: killed_or(t, outcome(range(11, 21)))
    )
    assert code == 0
    assert "losses, gradient norms and 40 tensors are bitwise identical" in " ".join(output.split())


def test_a_long_result_is_wrapped_with_its_verdict_in_the_column(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rehearse_command, "columns", lambda: 120)
    _, output = rehearse(
        monkeypatch, tmp_path, "kill", lambda t: killed_or(t, outcome(range(11, 21)))
    )
    lines = output.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("  kill "))
    assert " ok " not in lines[first]
    assert lines[first + 1].index(" ok ") == len("  kill       ") + rehearse_command.RESULT_WIDTH


def test_only_what_is_smaller_is_called_shrunk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, output = rehearse(
        monkeypatch,
        tmp_path,
        "train",
        lambda t: outcome(range(1, 21)),
        overrides=("training.sequence_length=64",),
    )
    sizes = re.findall(r"(\w+) ([\d,]+) → (\d+)[,.]", " ".join(output.split()))
    names = {name for name, _, _ in sizes}
    assert {"layers", "width", "steps"} <= names
    assert "sequence" not in names


@pytest.mark.parametrize(("peak", "word"), [("3e-3", "Shrunk"), ("1e-3", ""), ("3e-4", "Replaced")])
def test_a_learning_rate_is_called_shrunk_where_it_is_smaller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, peak: str, word: str
) -> None:
    given = f"training.learning_rate.peak={peak}"
    _, output = rehearse(
        monkeypatch, tmp_path, "train", lambda t: outcome(range(1, 21)), overrides=(given,)
    )
    said = " ".join(output.split())
    before, found, _ = said.partition(f"peak learning rate {float(peak):g} → 0.001")
    assert bool(found) == bool(word)
    assert not word or re.findall(r"Shrunk|Replaced", before)[-1] == word
    assert said.endswith(f"run.yaml {given}")


def trained(**changed: TrainingOutcome) -> Callable[[Training], TrainingOutcome]:
    """The trainings of the reshard drill, which agree except for those given by name."""
    five = outcome(range(1, drills.STRONG_STEPS + 1))
    usual = {
        "straight": outcome(range(1, 21)),
        "resharded": outcome(range(11, 21)),
        "strong": five,
        "reference": five,
    }
    return lambda training: (usual | changed)[training.name]


def with_values(run: TrainingOutcome, step: int, **values: object) -> TrainingOutcome:
    """A training with other values in one step."""
    events = tuple(
        Event(e.kind, e.step, e.time, e.values | values) if e.step == step else e
        for e in run.events
    )
    return TrainingOutcome(run.code, run.seconds, events)


def test_a_reshard_that_agrees_tells_both_comparisons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, output = rehearse(monkeypatch, tmp_path, "reshard", trained())
    assert code == 0
    assert (
        "saved with tp 2 · dp 2, resumed with dp 2: losses differ by 0e+00, gradient norms by "
        "0e+00 (bf16); strong weights, tp 2 · dp 2 and one rank: losses differ by 0e+00, gradient "
        "norms by 0e+00 (fp32)"
    ) in " ".join(output.split())


@pytest.mark.parametrize(
    "values", [{"loss": math.nan}, {"loss": 8.01}, {"grad_norm": 1.1}, {"grad_norm": math.inf}]
)
def test_a_reshard_that_differs_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: dict[str, float]
) -> None:
    other = with_values(outcome(range(11, 21)), 20, **values)
    code, output = rehearse(monkeypatch, tmp_path, "reshard", trained(resharded=other))
    assert code == 1
    assert "FAILED" in output
    assert "resumed with dp 2: losses differ by" in " ".join(output.split())


def test_a_wrong_gradient_with_strong_weights_ends_the_drill(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = []
    other = with_values(outcome(range(1, 6)), 3, grad_norm=1.0001)

    def answer(training: Training) -> TrainingOutcome:
        started.append((training.name, training.strong_weights > 0))
        return trained(strong=other)(training)

    code, output = rehearse(monkeypatch, tmp_path, "reshard", answer)
    assert code == 1
    said = "strong weights, tp 2 · dp 2 and one rank: losses differ by 0e+00, gradient norms by"
    assert f"{said} 1e-04 (fp32)" in " ".join(output.split())
    assert started == [("strong", True), ("reference", True)]


def test_strong_weights_are_compared_in_fp32_without_dropout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {}

    def answer(training: Training) -> TrainingOutcome:
        given[training.name] = training
        return trained()(training)

    overrides = ("training.hidden_dropout=0.1", "training.optimizer.clip_grad_norm=0")
    rehearse(monkeypatch, tmp_path, "reshard", answer, overrides=overrides)
    for name, processes, tp in (("strong", 4, 2), ("reference", 1, 1)):
        training = given[name]
        assert training.processes == processes
        arguments = training.arguments
        assert (arguments["bf16"], arguments["save"], arguments["load"]) == (None, None, None)
        assert arguments["hidden-dropout"] == 0
        # Without clipping, the engine computes no norm.
        assert arguments["clip-grad"] == 1
        assert arguments["tensor-model-parallel-size"] == tp
        # Both pad the vocabulary to the same size.
        assert arguments["make-vocab-size-divisible-by"] == 256 // tp


@pytest.mark.parametrize(("nodes", "cp"), [(2, 4), (1, 8)])
def test_multi_token_prediction_under_cp_is_compared_with_one_rank_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nodes: int, cp: int
) -> None:
    given = {}

    def answer(training: Training) -> TrainingOutcome:
        given[training.name] = training
        return trained()(replace(training, name=training.name.removesuffix("-without-mtp")))

    sizes = "layers: 4, hidden_size: 64, heads: 4, vocab_size: 997, max_positions: 8192"
    model = f"model={{dimensions: {{family: llama, {sizes}, mtp_layers: 1}}}}"
    layout = ["parallelism.tp_size=1", f"parallelism.cp_size={cp}", f"cluster.nodes={nodes}"]
    rest = ("parallelism.sequence_parallel=false", "training.sequence_length=2048")
    code, output = rehearse(
        monkeypatch, tmp_path, "reshard", answer, overrides=(model, *layout, *rest)
    )
    assert code == 0, output
    said = " ".join(output.split()).replace("multi- token", "multi-token")
    without = [given[f"{name}-without-mtp"] for name in drills.STRONG_RUNS]
    assert [each.arguments["mtp-num-layers"] for each in without] == [None, None]
    assert [each.arguments["context-parallel-size"] for each in without] == [2, 1]
    assert "strong weights without multi-token prediction, cp 2" in said
    # With the layers, in a layout of the same cp; not if that is the twin's.
    assert ("reference" in given) == (nodes * 8 > cp)
    if "reference" in given:
        assert "strong weights, cp 2 · dp 2 and cp 2: losses" in said
        for name in drills.STRONG_RUNS:
            assert given[name].arguments["mtp-num-layers"] == 1
            assert given[name].arguments["context-parallel-size"] == 2
    assert all(drills.steps_of(each.name) == drills.STRONG_STEPS for each in without)


def test_a_token_that_changes_its_expert_is_neither_a_failure_nor_a_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    five = outcome(range(1, 6))
    reference = with_values(five, 4, experts={"1": [100, 100]}, loss=9.0)
    strong = with_values(five, 4, experts={"1": [99, 101]}, loss=9.1)
    answer = trained(reference=reference, strong=strong)
    code, output = rehearse(monkeypatch, tmp_path, "reshard", answer)
    assert code == 0
    assert " ? " in output
    assert "until one token changed its expert at step 4" in " ".join(output.split())


def exported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, logits: Logits | Exception
) -> tuple[int, str]:
    """The drill, with an export that worked and a comparison that gave this."""

    def compare(*_: object, engine: Engine) -> Logits:
        if isinstance(logits, Exception):
            raise logits
        return logits

    monkeypatch.setattr(drills, "export_weights", lambda *_, **__: {"class": "GPT2LMHeadModel"})
    monkeypatch.setattr(drills, "compare_logits", compare)
    return rehearse(monkeypatch, tmp_path, "export", lambda t: outcome(range(1, 21)))


def test_an_export_with_the_engines_logits_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, output = exported(monkeypatch, tmp_path, Logits(2e-6, 128, 997, 128))
    assert code == 0
    said = "GPT2LMHeadModel, logits for 128 tokens in transformers differ by 2e-06"
    assert said in " ".join(output.split())


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        (Logits(2e-4, 128, 997, 120), "2e-04 from the engine's"),
        (Logits(math.inf, 0, 0, 0), "inf from the engine's"),
        (WeightsError("compare_logits failed: no output"), "compare_logits failed"),
    ],
)
def test_an_export_with_other_logits_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, logits: Logits | Exception, said: str
) -> None:
    code, output = exported(monkeypatch, tmp_path, logits)
    assert code == 1
    assert said in " ".join(output.split())
    assert "FAILED" in output


def test_a_model_of_no_class_is_not_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reason = "seatrial export supports no model class with this."
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(drills, "why_not_exported", lambda engine, arguments: reason)
    code, output = rehearse(monkeypatch, tmp_path, "export", lambda t: outcome(range(1, 21)))
    assert code == 0
    assert reason in " ".join(output.split())
    assert " ? " in output


def test_the_time_left_is_that_of_the_steps_so_far() -> None:
    now = 100.0
    left = TimeLeft(lambda: now)
    assert left.words("train", "training", 0) == ""
    now += 60
    # Loading torch took a minute; that says nothing about a step.
    assert left.words("train", "training", 1) == ""
    now += 8
    assert left.words("train", "training", 5) == ", about 30 s left"
    now += 10
    assert left.words("train", "training", STEPS) == ""
    # A training that resumes begins later.
    assert left.words("kill", "resumed", 11) == ""
    now += 3
    assert left.words("kill", "resumed", 14) == f", about {float(STEPS - 14):.1f} s left"
    # The runs with strong weights are shorter.
    assert left.words("reshard", "strong", 1) == ""
    now += 2
    assert left.words("reshard", "strong", 3) == ", about 2.0 s left"
    assert left.words("reshard", "strong", drills.STRONG_STEPS) == ""
