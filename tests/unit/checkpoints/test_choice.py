# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The newest good checkpoint, past torn and damaged ones; step 0 only where nothing was saved."""

from pathlib import Path

import pytest

from seatrial.checkpoints.inventory import State, checkpoints, tracked_step
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.select import ResumeRequest, candidates, nothing_good, tracker_finding
from seatrial.checkpoints.stopping import StopCode
from seatrial.engines.megatron.checkpoint_names import NAMING, TRACKER
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import make_checkpoint, write_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for step in (10, 20, 30):
        make_checkpoint(tmp_path, step)
    write_files(tmp_path / NAMING.directory_name(40))
    (tmp_path / NAMING.directory_name(30) / RECORD).write_text("garbage")
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "iter_0000020.replaced-by-2").mkdir()
    return tmp_path


def test_newest_first_and_what_is_wrong_with_each(root: Path) -> None:
    there = list(checkpoints(LocalPlace(root)))
    assert [(one.step, one.state) for one in there] == [
        (40, State.TORN),
        (30, State.DAMAGED),
        (20, State.COMMITTED),
        (10, State.COMMITTED),
    ]
    assert [one.step for one in candidates(ResumeRequest(str(root)), there)] == [20, 10]
    assert [one.step for one in candidates(ResumeRequest(str(root), step=10), there)] == [10]


def test_nothing_saved_begins_at_step_0(tmp_path: Path) -> None:
    assert nothing_good(ResumeRequest(str(tmp_path)), [], None) is None


def test_a_first_save_that_was_cut_short_begins_at_step_0(tmp_path: Path) -> None:
    write_files(tmp_path / NAMING.directory_name(10))
    there = list(checkpoints(LocalPlace(tmp_path)))
    assert nothing_good(ResumeRequest(str(tmp_path)), there, None) is None


def test_what_was_saved_and_cannot_be_used_stops(root: Path) -> None:
    there = list(checkpoints(LocalPlace(root)))
    refusal = nothing_good(ResumeRequest(str(root)), there, tracked_step(LocalPlace(root)))
    assert refusal is not None
    assert refusal.code is StopCode.NO_CHECKPOINT
    assert "none of the 3 checkpoints can be used" in str(refusal)


def test_checkpoints_without_records_stop_unless_weights_are_meant(tmp_path: Path) -> None:
    write_files(tmp_path / NAMING.directory_name(10))
    (tmp_path / TRACKER).write_text("10")
    there = list(checkpoints(LocalPlace(tmp_path)))
    refusal = nothing_good(ResumeRequest(str(tmp_path)), there, 10)
    assert refusal is not None
    assert "have no record" in str(refusal)
    assert nothing_good(ResumeRequest(str(tmp_path), foreign=True), there, 10) is None


def test_a_step_that_is_asked_for_is_that_or_none(root: Path) -> None:
    there = list(checkpoints(LocalPlace(root)))
    request = ResumeRequest(str(root), step=40)
    assert candidates(request, there) == []
    assert "the requested checkpoint at step 40" in str(nothing_good(request, there, 30))


@pytest.mark.parametrize(
    ("tracked", "said"), [(-1, "contains no step"), (40, "names step 40"), (20, ""), (None, "")]
)
def test_a_tracker_that_misleads_is_told(tracked: int | None, said: str) -> None:
    finding = tracker_finding(ResumeRequest("there"), TRACKER, 20, tracked)
    assert (finding is None) == (not said)
    assert finding is None or said in finding.rule
