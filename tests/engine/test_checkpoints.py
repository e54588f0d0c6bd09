# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commit protocol and the choice at a start, with the real engine."""

import os
import pickle
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.checkpoints.inventory import State, checkpoints, tracked_step
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.starts import claim, read_starts
from seatrial.checkpoints.stopping import StopCode
from seatrial.checkpoints.verification import verify
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import TrainingOutcome, worker_python
from seatrial.engines.megatron.checkpoint_names import NAMING, TRACKER
from seatrial.storage.location import LocalPlace
from tests.conftest import MEGATRON
from tests.engine.toy import start
from tests.faults.checkpoint_starts import (
    ASYNCHRONOUS,
    NEWEST,
    OLDER,
    STEPS,
    TINY,
    Engine,
    figures,
    whole_run,
)
from tests.unit.checkpoints.made import archive, crafted_list, make_checkpoint
from tests.unit.checkpoints.test_pickles import Trap
from tests.unit.checkpoints.test_scan import zipped

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2700)]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    loaded = Engine()
    yield loaded
    loaded.close()
    assert loaded.left_behind() == []


@pytest.fixture(scope="module")
def whole(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingOutcome]:
    directory = tmp_path_factory.mktemp("whole")
    return directory / "saved", whole_run(engine, directory)


@pytest.fixture
def saved(whole: tuple[Path, TrainingOutcome], tmp_path: Path) -> Path:
    shutil.copytree(whole[0], tmp_path / "saved")
    return tmp_path / "saved"


def test_every_save_is_committed_and_good(saved: Path) -> None:
    place = LocalPlace(saved)
    there = list(checkpoints(place))
    assert [(one.step, one.state) for one in there] == [
        (step, State.COMMITTED) for step in (6, 4, 2)
    ]
    for one in there:
        assert verify(place, one.directory) == []
        assert one.record is not None
        assert one.record.consumed_samples == one.step * 4
        assert one.record.setup.data_order.train_samples == STEPS * 4
        assert one.record.incarnation == 1
    (only,) = read_starts(place, 5)
    assert (only.incarnation, only.newest_step) == (1, 0)


def test_a_start_goes_on_to_the_last_bit(
    engine: Engine, whole: tuple[Path, TrainingOutcome], saved: Path
) -> None:
    outcome, printed = engine.start(saved.parent, saved)
    assert outcome.code == 0, printed[-2000:]
    assert "verified the checkpoint at step 6: resuming from it" in printed
    mine, straight = figures(outcome), figures(whole[1])
    assert mine == {step: straight[step] for step in (7, 8)}
    assert tracked_step(LocalPlace(saved)) == STEPS


@pytest.mark.parametrize("crafted", ["item", pytest.param("list", marks=pytest.mark.slow)])
def test_a_crafted_checkpoint_runs_nothing(
    engine: Engine, whole: tuple[Path, TrainingOutcome], saved: Path, tmp_path: Path, crafted: str
) -> None:
    """Whoever can write there makes the record for it as well; it is refused all the same."""
    shutil.rmtree(saved / NAMING.directory_name(NEWEST))
    sprung = tmp_path / "sprung"
    if crafted == "item":
        trap = archive(pickle.dumps({"x": Trap(sprung)}, protocol=2))
        make_checkpoint(saved, NEWEST, item=trap)
    else:
        with crafted_list(pickle.dumps(Trap(sprung))):
            make_checkpoint(saved, NEWEST)
    outcome, printed = engine.start(tmp_path, saved)
    assert outcome.code == 0, printed[-2000:]
    assert "ST-CHECKPOINT-009" in printed
    assert min(outcome.steps()) == OLDER + 1
    assert not sprung.exists()


LOADING = """
import io, sys, pickle, types
import numpy, torch
from megatron.core.datasets import blended_dataset, gpt_dataset
from megatron.core import safe_globals
from torch.distributed.checkpoint import FileSystemReader
from seatrial.worker.megatron import safe_load
from seatrial.worker.environment import set_variables
# Transformer Engine needs a GPU; it unpickles the state of FP8 like this.
engine = sys.modules["transformer_engine.base"] = types.ModuleType("base")
engine.pickle = pickle
before = pickle.dumps(torch.ones(2))
dtypes = [torch.float32, torch.uint8, torch.bfloat16]
state = {"scale_fwd": [torch.ones(300).to(kind) for kind in dtypes], "extra": {"n": 1}}
extra_states = [pickle.dumps(state)]
numpy.save(sys.argv[1] + "/index.npy", numpy.arange(5))
set_variables()
safe_load.install()
for load in (
    lambda: FileSystemReader(sys.argv[1]).read_metadata(),
    lambda: torch.load(sys.argv[1] + "/legacy", weights_only=False),
    lambda: torch.load(sys.argv[1] + "/case", weights_only=False),
    lambda: torch.load(sys.argv[1] + "/prefix", weights_only=False),
    lambda: torch.serialization.load(sys.argv[1] + "/item", weights_only=False),
    lambda: engine.pickle.loads(open(sys.argv[1] + "/legacy", "rb").read()),
    lambda: engine.pickle.loads(open(sys.argv[1] + "/pointer", "rb").read()),
    lambda: safe_globals.SafeUnpickler(open(sys.argv[1] + "/pointer", "rb")).load(),
    lambda: gpt_dataset.safe_numpy_load(sys.argv[1] + "/pointer", allow_pickle=True, mmap_mode="r"),
    lambda: blended_dataset.safe_numpy_load(sys.argv[1] + "/legacy", allow_pickle=True),
):
    try:
        load()
    except pickle.UnpicklingError as error:
        print("refused")
# What ranks send each other still arrives.
print([pickle.loads(sent).tolist() for sent in (before, pickle.dumps(torch.zeros(1)))])
# So do the state of FP8, pickled before and after, and the indices of samples.
for written in (*extra_states, pickle.dumps(state)):
    for read in (
        engine.pickle.loads,
        lambda data: safe_globals.SafeUnpickler(io.BytesIO(data)).load(),
    ):
        scales = read(written)["scale_fwd"]
        print([one.dtype for one in scales] == dtypes, sum(one.float().sum() for one in scales))
print(gpt_dataset.safe_numpy_load(sys.argv[1] + "/index.npy", allow_pickle=True, mmap_mode="r"))
"""

POINTER = b"\x80\x04cbuiltins\nlist\ncnumpy\nndarray\nK\x01\x85X\x01\0\0\0OC\x08AAAAAAAA\x87R\x85R."
"""An array whose bytes are taken for a pointer to an object; Megatron allows each of its names."""


def test_what_reaches_the_loader_unverified_runs_nothing_either(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    trap = pickle.dumps(Trap(sprung), protocol=2)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Trap(sprung)))
    (tmp_path / "legacy").write_bytes(trap)
    (tmp_path / "pointer").write_bytes(POINTER)
    (tmp_path / "case").write_bytes(zipped([("archive/data.PKL", trap)]))
    (tmp_path / "prefix").write_bytes(trap + archive({"a": 1}))
    (tmp_path / "item").write_bytes(archive(trap))
    done = subprocess.run(
        [worker_python(MEGATRON), "-c", LOADING, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    arrived = ["[[1.0, 1.0], [0.0]]", *["True tensor(900.)"] * 4, "[0 1 2 3 4]"]
    assert done.stdout.splitlines() == [*["refused"] * 10, *arrived], done.stderr
    assert not sprung.exists()


def test_with_nothing_good_the_start_ends_with_a_reason(engine: Engine, saved: Path) -> None:
    for step in (2, 4, 6):
        (saved / NAMING.directory_name(step) / "__0_i1_0.distcp").write_bytes(b"")
    outcome, printed = engine.start(saved.parent, saved)
    assert outcome.code == StopCode.NO_CHECKPOINT
    assert "none of the 3 checkpoints can be used" in printed
    assert outcome.steps() == {}


@pytest.mark.slow
def test_checkpoints_without_records_are_not_passed_over(engine: Engine, saved: Path) -> None:
    for step in (2, 4, 6):
        (saved / NAMING.directory_name(step) / RECORD).unlink()
    outcome, printed = engine.start(saved.parent, saved)
    assert outcome.code == StopCode.NO_CHECKPOINT
    assert "have no record" in printed
    (saved / TRACKER).unlink()
    outcome, printed = engine.start(saved.parent, saved)
    assert outcome.code == 0
    assert min(outcome.steps()) == 1


def test_starts_that_come_to_nothing_stop(engine: Engine, saved: Path) -> None:
    for _ in range(3):
        claim(LocalPlace(saved), "7", NEWEST)
    settings = {"SEATRIAL_ATTEMPT": "7", "SEATRIAL_FRUITLESS_STARTS": "3"}
    outcome, printed = engine.start(saved.parent, saved, environment=settings)
    assert outcome.code == StopCode.NO_PROGRESS
    assert "ST-CHECKPOINT-012" in printed
    # A new attempt: somebody has looked at it.
    settings["SEATRIAL_ATTEMPT"] = "8"
    outcome, printed = engine.start(saved.parent, saved, environment=settings)
    assert outcome.code == 0, printed[-2000:]


def test_old_checkpoints_go_while_the_run_saves(engine: Engine, tmp_path: Path) -> None:
    saved, few = tmp_path / "saved", {"SEATRIAL_KEEP_LAST": "2"}
    outcome, printed = engine.start(tmp_path, saved, environment=few)
    assert outcome.code == 0, printed[-2000:]
    place = LocalPlace(saved)
    kept = [one for one in checkpoints(place) if one.record is not None]
    # The removal after the last commit may be cut short by the end of the process.
    assert [one.step for one in kept] in ([8, 6], [8, 6, 4])
    assert [verify(place, one.directory) for one in kept[:2]] == [[], []]
    assert "deleted the checkpoint at step 2" in printed
    assert not (saved / NAMING.directory_name(2)).exists()
    assert tracked_step(place) == STEPS


@pytest.mark.slow
def test_saves_beside_the_training_of_two_ranks(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    arguments = {**TINY, **ASYNCHRONOUS, "save": str(saved), "load": str(saved)}
    straight = start(tmp_path, "straight", arguments, 2)
    place = LocalPlace(saved)
    assert [one.step for one in checkpoints(place)] == [8, 6, 4, 2]
    for one in checkpoints(place):
        assert verify(place, one.directory) == []
    # The newest is damaged by a bit, and the tracker is garbage.
    file = saved / NAMING.directory_name(8) / "__1_i1_0.distcp"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    (saved / TRACKER).write_text("garbage")
    resumed = start(tmp_path, "resumed", arguments, 2)
    assert figures(resumed) == {step: figures(straight)[step] for step in (7, 8)}
    assert verify(place, NAMING.directory_name(8)) == []
