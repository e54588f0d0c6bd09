# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run begins with, and the real engine: Hugging Face weights, or another run's checkpoint.

The figures of the first step are the proof. Weights that the worker brings in give the loss of the
same weights imported by hand, whose logits are those of transformers (`test_export.py`). A run that
continues another does the parent's own next steps.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from seatrial.checkpoints.exchange.safetensors_file import SINGLE, Tensor, header
from seatrial.checkpoints.exchange.shapes import hub_tensors
from seatrial.checkpoints.exchange.weight_map import config_of_model
from seatrial.checkpoints.inventory import checkpoints
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.stopping import StopCode
from seatrial.checkpoints.verification import verify
from seatrial.engine_process.process import Training, TrainingOutcome, train
from seatrial.engine_process.weights import import_weights
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.engines.megatron.command_line import Arguments
from seatrial.engines.megatron.weight_map import entries
from seatrial.storage.location import LocalPlace
from tests.conftest import MEGATRON
from tests.engine.toy import TIMEOUT
from tests.faults.checkpoint_starts import TINY, Engine
from tests.unit.checkpoints.exchange.models import LLAMA, changed

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2700)]

MODEL = changed(
    LLAMA,
    layers=2,
    norm_epsilon=1e-6,
    hidden_size=32,
    ffn_hidden_size=48,
    head_dim=8,
    vocab_size=101,
    max_positions=16,
    rope_theta=10000.0,
    rope_scaling=None,
)
RUN: Arguments = {
    "position-embedding-type": "rope",
    "group-query-attention": True,
    "num-query-groups": 2,
    "ffn-hidden-size": 48,
    "normalization": "RMSNorm",
    "norm-epsilon": 1e-6,
    "swiglu": True,
    "untie-embeddings-and-output-weights": True,
    "disable-bias-linear": True,
    "vocab-size": 101,
    "padded-vocab-size": 128,
    "train-iters": 4,
    "save-interval": 2,
    "lr": 4e-3,
    "min-lr": 4e-4,
    "lr-decay-style": "linear",
    "lr-decay-iters": 4,
}
"""The same model, and a rate that falls at every step."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    loaded = Engine()
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn weights in Hugging Face's files."""
    directory = tmp_path_factory.mktemp("hub")
    draw = np.random.default_rng(7)
    every = hub_tensors(MODEL.architecture, entries(MODEL))
    tensors = [Tensor(one.name, "float32", one.shape) for one in every]
    drawn = [
        draw.normal(float("norm" in one.name), 0.1, one.shape).astype("<f4").tobytes()
        for one in tensors
    ]
    (directory / SINGLE).write_bytes(header(tensors) + b"".join(drawn))
    (directory / "config.json").write_text(json.dumps(config_of_model(MODEL, {}, "float32", {})))
    return directory


@pytest.fixture(scope="module")
def parent(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, TrainingOutcome]:
    """A run of four steps that saved after two, and where it did."""
    directory = tmp_path_factory.mktemp("parent")
    outcome, printed = engine.start(directory, directory / "saved", RUN)
    assert outcome.code == 0, printed[-3000:]
    return directory / "saved", outcome


def following(saved: Path, **more: str) -> dict[str, str]:
    """What the worker is told of a parent."""
    return {"SEATRIAL_CONTINUE_FROM": str(saved), "SEATRIAL_CONTINUE_STEP": "2", **more}


def figures(outcome: TrainingOutcome) -> dict[int, list[float]]:
    """Loss, gradient norm and learning rate of each step."""
    names = ("loss", "grad_norm", "learning_rate")
    steps = outcome.steps().items()
    return {step: [event.values[name] for name in names] for step, event in steps}


def test_weights_are_brought_in_once(engine: Engine, hub: Path, tmp_path: Path) -> None:
    """The run begins with their loss; when it has saved, nobody fetches them again."""
    saved, told = tmp_path / "saved", {"SEATRIAL_INITIAL_WEIGHTS": str(hub)}
    brought = saved / "initial-weights"
    # What an import that was cut short has left.
    (brought / NAMING.directory_name(0)).mkdir(parents=True)
    (brought / NAMING.directory_name(0) / "__0_i1_0.distcp").write_bytes(b"half")
    run = {**RUN, "train-iters": 2, "pretrained-checkpoint": str(brought)}
    first, printed = engine.start(tmp_path / "1", saved, run, told)
    assert first.code == 0, printed[-3000:]
    assert f"converted {hub} to {brought}" in printed
    assert verify(LocalPlace(brought), NAMING.directory_name(0)) == []

    import_weights(hub, tmp_path / "imported", engine=MEGATRON)
    once = {**run, "train-iters": 1, "pretrained-checkpoint": str(tmp_path / "imported")}
    by_hand, _ = engine.start(tmp_path / "2", tmp_path / "other", once)
    assert first.losses()[1] == by_hand.losses()[1]
    fresh, _ = engine.start(tmp_path / "3", tmp_path / "fresh", {**RUN, "train-iters": 1})
    assert abs(first.losses()[1] - fresh.losses()[1]) > 0.005

    shutil.rmtree(brought)
    again, printed = engine.start(tmp_path / "4", saved, {**run, "train-iters": 3}, told)
    assert again.code == 0, printed[-3000:]
    assert sorted(again.steps()) == [3]
    assert not brought.exists()


@pytest.mark.slow
def test_other_ranks_wait_for_the_weights(hub: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    arguments = {
        **TINY,
        **RUN,
        "train-iters": 1,
        "save": str(saved),
        "load": str(saved),
        "pretrained-checkpoint": str(saved / "initial-weights"),
    }
    told = {"SEATRIAL_INITIAL_WEIGHTS": str(hub)}
    training = Training("two", arguments, 2, tmp_path, environment=told, engine="megatron")
    outcome = train(training, 4 * TIMEOUT)
    printed = training.log.read_text(errors="replace")
    assert outcome.code == 0, printed[-3000:]
    assert printed.count(f"converted {hub} to ") == 1


def test_weights_of_another_model_are_refused(engine: Engine, hub: Path, tmp_path: Path) -> None:
    """Another epsilon has no tensor by which the engine could notice it."""
    brought = tmp_path / "saved" / "initial-weights"
    other = {**RUN, "norm-epsilon": 1e-5, "pretrained-checkpoint": str(brought)}
    told = {"SEATRIAL_INITIAL_WEIGHTS": str(hub)}
    outcome, printed = engine.start(tmp_path, tmp_path / "saved", other, told)
    assert outcome.code == StopCode.NO_CHECKPOINT
    assert "norm epsilon 1e-06, and the run has 1e-05" in printed
    assert "model.dimensions.norm_epsilon=1e-06" in printed
    assert "Traceback" not in printed
    assert not (brought / NAMING.directory_name(0) / RECORD).exists()


def test_a_run_goes_on_from_its_parent(
    engine: Engine, parent: tuple[Path, TrainingOutcome], tmp_path: Path
) -> None:
    """As the parent itself did, to the last bit; and after that from its own saves."""
    saved, told = tmp_path / "saved", following(parent[0])
    child, printed = engine.start(tmp_path / "1", saved, RUN, told)
    assert child.code == 0, printed[-3000:]
    straight = figures(parent[1])
    assert figures(child) == {step: straight[step] for step in (3, 4)}
    (own,) = checkpoints(LocalPlace(saved))
    assert own.record is not None
    assert (own.step, own.record.consumed_samples) == (4, 16)
    # Longer, with the schedule of before: its own save comes first now.
    longer, printed = engine.start(tmp_path / "2", saved, {**RUN, "train-iters": 6}, told)
    assert longer.code == 0, printed[-3000:]
    assert sorted(longer.steps()) == [5, 6]


def test_a_schedule_begins_anew(
    engine: Engine, parent: tuple[Path, TrainingOutcome], tmp_path: Path
) -> None:
    saved, told = tmp_path / "saved", following(parent[0])
    other: Arguments = {**RUN, "lr": 1e-3, "min-lr": 1e-4, "lr-warmup-iters": 1}
    refused, printed = engine.start(tmp_path / "1", saved, other, told)
    assert refused.code == StopCode.NO_CHECKPOINT
    assert "was saved with learning rate 0.004, but the run has 0.001" in printed
    assert "continue_from.reset_schedule=true" in printed

    anew = following(parent[0], SEATRIAL_CONTINUE_ANEW="1")
    child, printed = engine.start(tmp_path / "2", saved, other, anew)
    assert child.code == 0, printed[-3000:]
    # The state is the parent's. The rate, which is reported after a step, is that of a first and a
    # second one: warmed up after one step, then falling to a tenth over three.
    assert figures(child)[3][:2] == figures(parent[1])[3][:2]
    assert [figures(child)[step][2] for step in (3, 4)] == pytest.approx([1e-3, 7e-4])


def test_a_parent_that_saved_nothing_is_no_beginning(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    told = {"SEATRIAL_CONTINUE_FROM": str(tmp_path / "nothing")}
    outcome, printed = engine.start(tmp_path, tmp_path / "saved", RUN, told)
    assert outcome.code == StopCode.NO_CHECKPOINT
    assert "it contains no checkpoint" in printed
    assert outcome.steps() == {}
