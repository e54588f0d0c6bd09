# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reshard drill finds wrong gradients and wrong masks that were planted in a layout."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engine_process.process import Training, TrainingOutcome, worker_python
from seatrial.engine_process.process import _environment as drill_environment
from seatrial.rehearsal import drills
from seatrial.rehearsal.drills import DrillName, Rehearsal, Result
from seatrial.rehearsal.twin import Twin, TwinData, twins
from tests.conftest import MEGATRON, loaded, plan_spec
from tests.engine.conftest import Figure
from tests.faults.warm import Warm

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

PASSED = tuple(f"SEATRIAL_DRILL_{name}" for name in ("FAULT", "WEIGHTS", "EXPERTS", "KILL"))
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"

LLAMA = "model.preset=llama3-8b"
GPT = "model.preset=gpt3-125m"
DEEP_GPT = "model.preset=gpt3-1.3b"
MOE = "model.preset=qwen3-30b-a3b"

SIZES = (
    "family: llama, layers: 24, hidden_size: 1024, heads: 16, vocab_size: 32000, "
    "max_positions: 4096"
)
WINDOW = f"model={{dimensions: {{{SIZES}, kv_heads: 8, window: {{tokens: 512, full_every: 2}}}}}}"
LATENT = (
    f"model={{dimensions: {{{SIZES}, latent_attention: {{kv_rank: 256, q_rank: 384, "
    "qk_head_dim: 64, rope_head_dim: 32, value_head_dim: 64}}}"
)

ONE_TP = ("parallelism.tp_size=1", "parallelism.sequence_parallel=false")
AXES = {
    "tp": ("parallelism.tp_size=8", "parallelism.sequence_parallel=true"),
    "pp": ("parallelism.pp_size=8", *ONE_TP),
    "cp": ("parallelism.cp_size=8", *ONE_TP),
    "ep": ("parallelism.ep_size=8", *ONE_TP),
    "dp": ONE_TP,
}
"""Layouts that fill a node, so that the twin has one degree greater than 1, which is 2."""

BUGS = {
    "unmarked-norm": (LLAMA, "tp"),
    "partition-scale": (LLAMA, "tp"),
    "split-key-gradient": (MOE, "tp"),
    "no-causal-mask": (LLAMA, "cp"),
    "contiguous-chunks": (LLAMA, "cp"),
    "unordered-keys": (LLAMA, "cp"),
    "window-at-end": (WINDOW, "cp"),
    "split-rotary-gradient": (LATENT, "tp"),
    "local-positions": (GPT, "cp"),
    "whole-sequence-count": (LLAMA, "cp"),
    "untied-embedding": (DEEP_GPT, "pp"),
    "unreduced-router": (MOE, "tp"),
    "unscaled-experts": (MOE, "ep"),
    "averaged-twice": (GPT, "dp"),
}
SHORT = "unmarked-norm"
"""The bug that every run of CI plants; `make engine` plants all."""


def twin_of(model: str, axis: str, *overrides: str) -> Twin:
    """The twin of a model on one node that is split along one axis."""
    spec = loaded(
        "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 1}",
        "training.micro_batch_size=1",
        model,
        *AXES[axis],
        *overrides,
    )
    (twin,) = twins(spec, plan_spec(spec, Catalog()), Catalog(), TwinData())
    return twin


@pytest.fixture(scope="module")
def engine() -> Iterator[Warm]:
    """The engine, loaded once for all trainings here."""
    warm = Warm(worker_python(MEGATRON), "tests.engine.warm_worker")
    yield warm
    warm.close()


def fork_drills(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drills start the engine as forks of a process that has loaded it."""

    def start(training: Training, *rest: object) -> TrainingOutcome:
        words = MEGATRON.command_line(training.arguments)
        wanted = drill_environment(training)
        variables = {name: wanted.get(name, "") for name in PASSED}
        variables[CONNECTIONS] = training.environment.get(CONNECTIONS, "1")
        return warm.begin(training.log, words, variables, training.processes)

    monkeypatch.setattr(drills, "train", start)


@pytest.fixture(autouse=True)
def forked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the engine, except in the test that every run of CI makes."""
    if request.node.get_closest_marker("slow") is not None:
        fork_drills(request.getfixturevalue("engine"), monkeypatch)


def reshard(directory: Path, twin: Twin, bug: str = "") -> Result:
    return Rehearsal(twin, directory, seed=1, bug=bug).run(DrillName.RESHARD)


def cases() -> list[object]:
    slow = pytest.mark.slow
    return [pytest.param(bug, marks=() if bug == SHORT else slow) for bug in BUGS]


@pytest.mark.parametrize("bug", cases())
def test_the_drill_finds_a_planted_bug(bug: str, tmp_path: Path, figure: Figure) -> None:
    result = reshard(tmp_path, twin_of(*BUGS[bug]), bug)
    print(f"{bug}: {'missed' if result.ok else 'found'}: {result.said}")
    differences = re.findall(r" by (\d\S*e[+-]\d+)", result.said)[:2]
    figure("planted", bug, BUGS[bug][1], "missed" if result.ok else "found", *differences)
    assert not result.ok
    # Not found because the training failed, but because its figures differ.
    assert "differ by" in result.said


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(set(BUGS.values())))
def test_the_drill_passes_without_a_bug(case: tuple[str, str], tmp_path: Path) -> None:
    result = reshard(tmp_path, twin_of(*case))
    print(f"{case}: {result.said}")
    assert result.ok
