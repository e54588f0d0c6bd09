# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Old checkpoints are removed after a commit, and nothing that somebody may need."""

from pathlib import Path

import pytest

from seatrial.checkpoints.commit import commit
from seatrial.checkpoints.inventory import checkpoints, look
from seatrial.checkpoints.naming import RECORD, set_aside_name
from seatrial.checkpoints.resumable_verification import pin, verify_noting
from seatrial.checkpoints.retention import Policy
from seatrial.checkpoints.starts import claim
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.storage.location import LocalPlace
from seatrial.worker.checkpointing.retention import KEEP_EVERY, KEEP_LAST, Retirement, policy_of
from tests.unit.checkpoints.made import flip, make_checkpoint, record, write_files


def left(root: Path, policy: Policy) -> list[int]:
    """The steps that are left after a commit."""
    retirement = Retirement(policy)
    retirement.after_commit(LocalPlace(root))
    retirement.wait(60)
    return [one.step for one in checkpoints(LocalPlace(root))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for step in (10, 20, 30, 40, 50):
        make_checkpoint(tmp_path, step, size=200)
    return tmp_path


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        (Policy(last=2), [50, 40]),
        (Policy(last=2, every_steps=20), [50, 40, 20]),
        (Policy(last=9), [50, 40, 30, 20, 10]),
    ],
)
def test_what_the_spec_asks_for_is_kept(root: Path, policy: Policy, steps: list[int]) -> None:
    assert left(root, policy) == steps


def test_pinned_damaged_and_set_aside_ones_stay(root: Path) -> None:
    pin(LocalPlace(root), NAMING.directory_name(10), "published")
    (root / NAMING.directory_name(20) / RECORD).write_bytes(b"garbage")
    aside = root / set_aside_name(NAMING.directory_name(30), 2)
    (root / NAMING.directory_name(30)).rename(aside)
    assert left(root, Policy(last=2)) == [50, 40, 20, 10]
    assert aside.exists()


def test_damaged_newer_ones_take_no_good_ones_place(root: Path) -> None:
    place = LocalPlace(root)
    for step in (40, 50):
        flip(root / NAMING.directory_name(step) / "__0_i1_0.distcp")
        # As the start does that passes them by.
        verify_noting(place, look(place, NAMING.directory_name(step)))
    verify_noting(place, look(place, NAMING.directory_name(30)))
    start = claim(place, "1", 30)
    shards = write_files(root / NAMING.directory_name(32), incarnation=start.incarnation)
    commit(place, shards, record(32, start.incarnation))
    assert left(root, Policy(last=1)) == [50, 40, 32, 30]


def test_what_a_removal_that_was_cut_short_has_left_goes_with_the_next(root: Path) -> None:
    (root / NAMING.directory_name(10) / RECORD).unlink()
    # Newer than all that is committed, it may still be being saved.
    (root / NAMING.directory_name(60)).mkdir()
    assert left(root, Policy(last=4)) == [60, 50, 40, 30, 20]


def test_a_place_that_cannot_be_changed_does_not_end_the_training(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("seatrial.worker.checkpointing.retention.retire", refuse)
    assert left(root, Policy(last=2)) == [50, 40, 30, 20, 10]
    assert "cannot delete old checkpoints: [Errno 30] Read-only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "policy"),
    [
        ({}, None),
        ({KEEP_LAST: "3"}, Policy(last=3)),
        ({KEEP_LAST: "2", KEEP_EVERY: "1000"}, Policy(last=2, every_steps=1000)),
        ({KEEP_LAST: "0"}, None),
        ({KEEP_LAST: "-1"}, None),
        ({KEEP_LAST: "three"}, None),
        ({KEEP_LAST: "3", KEEP_EVERY: "many"}, None),
        ({KEEP_EVERY: "1000"}, None),
    ],
)
def test_what_is_no_number_removes_nothing(told: dict[str, str], policy: Policy | None) -> None:
    assert policy_of(told) == policy
