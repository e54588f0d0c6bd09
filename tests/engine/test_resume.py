# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Kill and resume to the last bit; reshard within 1e-6."""

import random
from pathlib import Path

import pytest

from seatrial.engine_process.process import TrainingOutcome, differing_tensors
from seatrial.engines.megatron.command_line import Arguments
from seatrial.monitoring.event_log import EventKind
from tests.conftest import MEGATRON
from tests.engine.conftest import Figure
from tests.engine.test_parity import BAR, EP, PP, SP
from tests.engine.toy import DENSE, MOE, SHARDED, STEPS, largest_difference, start

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2700)]

SAVE_AT = 10
SEED = 20261115
DROPOUT: Arguments = {"hidden-dropout": 0.1, "attention-dropout": 0.1}
KILLED: Arguments = {**DENSE, **SHARDED, **DROPOUT, "save-interval": SAVE_AT}

Straight = tuple[Path, TrainingOutcome]
"""Where an undisturbed training saved, and what it did."""


def draws(number: int, ranks: int = 2) -> list[tuple[int, int]]:
    """Rank and step of each kill, from a recorded seed."""
    source = random.Random(SEED)
    return [
        (source.randrange(ranks), source.randint(SAVE_AT + 1, STEPS - 1)) for _ in range(number)
    ]


def figures(outcome: TrainingOutcome) -> dict[int, tuple[float, float]]:
    """Loss and gradient norm of each step."""
    return {s: (e.values["loss"], e.values["grad_norm"]) for s, e in outcome.steps().items()}


def go_straight(directory: Path, model: Arguments, processes: int = 2) -> Straight:
    saved = directory / "saved"
    return saved, start(directory, "straight", {**model, "save": str(saved)}, processes)


def compare(straight: Straight, saved: Path, resumed: TrainingOutcome) -> tuple[int, list[str]]:
    """How many steps, and which tensors, differ from the undisturbed training."""
    mine = figures(resumed)
    wrong = sum(mine[step] != figures(straight[1])[step] for step in mine)
    last = f"iter_{STEPS:07d}"
    tensors, differing = differing_tensors(straight[0] / last, saved / last, engine=MEGATRON)
    assert tensors > 10
    return wrong, differing


def kill_and_resume(
    tmp_path: Path,
    straight: Straight,
    kill: tuple[int, int],
    model: Arguments = KILLED,
    processes: int = 2,
) -> tuple[int, list[str]]:
    """Kill a rank, start again, and compare."""
    saved = tmp_path / "saved"
    arguments = {**model, "save": str(saved), "load": str(saved)}
    killed = start(tmp_path, "killed", arguments, processes, kill=kill)
    assert killed.code != 0
    resumed = start(tmp_path, "resumed", arguments, processes)
    assert sorted(resumed.steps()) == list(range(SAVE_AT + 1, STEPS + 1))
    return compare(straight, saved, resumed)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Straight:
    return go_straight(tmp_path_factory.mktemp("straight"), KILLED)


@pytest.mark.slow
def test_one_kill_leaves_no_trace(tmp_path: Path, straight: Straight) -> None:
    assert kill_and_resume(tmp_path, straight, draws(1)[0]) == (0, [])


@pytest.mark.slow
def test_twenty_kills_leave_no_trace(tmp_path: Path, straight: Straight, figure: Figure) -> None:
    clean = 0
    for number, kill in enumerate(draws(20)):
        outcome = kill_and_resume(tmp_path / str(number), straight, kill)
        print(f"KILL | {number} | rank {kill[0]} | step {kill[1]} | {outcome} |")
        clean += outcome == (0, [])
    figure("kills", "dp 2, distributed optimizer, fp32, 20 kills", f"{clean} of 20")
    assert clean == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("tp 2, pp 2, sequence parallel, bf16", {**SP, **PP, "bf16": True}),
        ("pp 2, dp 2, fp32", PP),
    ],
)
def test_a_kill_leaves_no_trace_in_other_layouts(
    tmp_path: Path, name: str, layout: Arguments, figure: Figure
) -> None:
    model = {**KILLED, **layout}
    straight = go_straight(tmp_path / "straight", model, 4)
    outcome = kill_and_resume(tmp_path, straight, draws(1, 4)[0], model, 4)
    figure("kills", f"{name}, 1 kill", "1 of 1" if outcome == (0, []) else "0 of 1")
    assert outcome == (0, [])


GROWS_AT = 14
SIZES = [4] * SAVE_AT + [8] * (GROWS_AT - SAVE_AT) + [16] * (STEPS - GROWS_AT)
"""The batch of each step: it grows at a save, and once more after the kill."""
TOKENS = [64 * sum(SIZES[:step]) for step in (SAVE_AT, GROWS_AT)]


@pytest.mark.slow
def test_a_kill_leaves_no_trace_while_the_batch_grows(tmp_path: Path, figure: Figure) -> None:
    model: Arguments = {
        **KILLED,
        "global-batch-size": None,
        "train-iters": None,
        "train-samples": sum(SIZES),
        "lr-decay-style": "linear",
        "lr-warmup-samples": 20,
        "lr-decay-samples": sum(SIZES),
        "step-batch-size-schedule": f"0:4,{TOKENS[0]}:8,{TOKENS[1]}:16",
        "eval-global-batch-size": 16,
    }
    straight = go_straight(tmp_path / "straight", model)
    steps = straight[1].steps()
    assert [steps[step].values["global_batch_size"] for step in sorted(steps)] == SIZES
    assert steps[STEPS].values["consumed_samples"] == sum(SIZES)
    started = next(e for e in straight[1].events if e.kind is EventKind.START)
    named = ("global_batch_size", "total_steps", "total_samples")
    assert [started.values[name] for name in named] == [16, STEPS, sum(SIZES)]
    # The engine saves before the batch grows, but no step twice.
    saves = [e.step for e in straight[1].events if e.kind is EventKind.SAVE]
    assert saves == [SAVE_AT, GROWS_AT, STEPS]
    outcome = kill_and_resume(tmp_path, straight, (1, SAVE_AT + 2), model)
    figure("kills", "dp 2, growing batch, 1 kill", "1 of 1" if outcome == (0, []) else "0 of 1")
    assert outcome == (0, [])


@pytest.mark.slow
def test_torchrun_starts_again_by_itself(
    tmp_path: Path, straight: Straight, figure: Figure
) -> None:
    kills, clean = draws(5), 0
    for number, kill in enumerate(kills):
        where = tmp_path / str(number)
        arguments = {**KILLED, "save": str(where / "saved"), "load": str(where / "saved")}
        outcome = start(where, "restarted", arguments, 2, kill=kill, restarts=1)
        starts = [event.step for event in outcome.events if event.kind is EventKind.START]
        same = outcome.code == 0 and compare(straight, where / "saved", outcome) == (0, [])
        clean += same and starts == [0, SAVE_AT]
    figure("kills", "dp 2, restarted by torchrun itself, 5 kills", f"{clean} of 5")
    assert clean == 5


RESHARDED: dict[tuple[str, str], tuple[Arguments, Arguments, Arguments, int]] = {
    ("dp 2", "tp 2, pp 2, sequence parallel"): (DENSE, {}, {**SP, **PP}, 4),
    ("dp 2", "pp 2"): (DENSE, {}, PP, 2),
    # From dp 2 with ep 1 the engine refuses tp 2 × pp 2: the gradients of its experts are in
    # two buffers there and in one where they were saved. See the page on the engine.
    ("dp 2, ep 2 (mixture of experts)", "tp 2, pp 2, ep 2, sequence parallel"): (
        MOE,
        EP,
        {**SP, **PP, **EP},
        4,
    ),
    ("dp 2, ep 1 (mixture of experts)", "pp 2"): (MOE, {}, PP, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", RESHARDED, ids=" to ".join)
def test_a_checkpoint_of_dp_2_goes_on_in_another_layout(
    tmp_path: Path, case: tuple[str, str], figure: Figure
) -> None:
    model, saved, layout, processes = RESHARDED[case]
    where = str(tmp_path / "saved")
    saving = {**model, **SHARDED, "save-interval": SAVE_AT}
    straight = start(tmp_path, "straight", {**saving, **saved, "save": where}, 2)
    loading = {**saving, "load": where, "ckpt-step": SAVE_AT, **layout}
    resharded = start(tmp_path, "resharded", loading, processes)
    assert sorted(resharded.losses()) == list(range(SAVE_AT + 1, STEPS + 1))
    difference = largest_difference(straight, resharded)
    figure("reshard", *case, f"{difference:.1e}")
    assert difference <= BAR


def test_arguments_that_the_engine_refuses_end_the_log(tmp_path: Path) -> None:
    outcome = start(tmp_path, "refused", {**DENSE, "hidden-size": 63}, kill=(9, 9))
    assert outcome.code != 0
    (last,) = outcome.events
    assert last.kind is EventKind.EXIT
    assert last.values["code"] != 0
    assert last.values["error"].startswith("AssertionError")
