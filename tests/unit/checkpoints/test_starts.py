# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Starts take numbers, the last one alone may commit, and fruitless ones are counted."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seatrial.checkpoints.commit import commit, make_room
from seatrial.checkpoints.inventory import State, look, newest_step
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.starts import (
    StaleStartError,
    Start,
    claim,
    newest_incarnation,
    no_progress,
    read_starts,
)
from seatrial.checkpoints.verification import verify
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import make_checkpoint, record, write_files


def late_commit_is_refused(root: Path, seed: int) -> bool:
    """Whether a start that was replaced cannot commit, and spoils nothing of its successor."""
    draw = random.Random(seed)  # noqa: S311
    place, step = LocalPlace(root), draw.randint(1, 99)
    old = claim(place, "1", 0)
    before_the_save = draw.random() < 0.5
    if not before_the_save:
        make_room(place, NAMING.directory_name(step), old.incarnation)
    mine = write_files(root / NAMING.directory_name(step), incarnation=old.incarnation, seed=1)
    new = claim(place, "1", 0)
    if draw.random() < 0.5:
        # Its successor has saved the same step already.
        theirs = write_files(
            root / NAMING.directory_name(step), incarnation=new.incarnation, seed=2
        )
        commit(place, theirs, record(step, new.incarnation))
    held = newest_step(place)
    try:
        if before_the_save:
            make_room(place, NAMING.directory_name(step), old.incarnation)
        commit(place, mine, record(step, old.incarnation))
    except StaleStartError:
        whole = not held or verify(place, NAMING.directory_name(step)) == []
        return newest_step(place) == held and whole
    return False


@pytest.mark.parametrize("seed", range(4))
def test_a_late_commit_is_refused(tmp_path: Path, seed: int) -> None:
    assert late_commit_is_refused(tmp_path, seed)


def test_what_an_orphan_writes_after_its_look_is_found(tmp_path: Path) -> None:
    """The list of tensors has one name for all starts (docs/adr/0010-checkpoints.md)."""
    place = LocalPlace(tmp_path)
    make_checkpoint(tmp_path, 10)
    old, new = claim(place, "1", 10).incarnation, claim(place, "1", 10).incarnation
    theirs = write_files(tmp_path / NAMING.directory_name(20), incarnation=new)
    commit(place, theirs, record(20, new))
    write_files(tmp_path / NAMING.directory_name(20), incarnation=old, seed=3)
    assert [one.code for one in verify(place, NAMING.directory_name(20))] == [CheckpointCode.DIGEST]
    assert verify(place, NAMING.directory_name(10)) == []


def test_of_many_starts_at_once_each_has_its_own_number(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        starts = list(pool.map(lambda _: claim(place, "1", 0), range(24)))
    assert sorted(start.incarnation for start in starts) == list(range(1, 25))
    assert newest_incarnation(place) == 24


def test_a_step_counts_once(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 10)
    first = (tmp_path / NAMING.directory_name(10) / RECORD).read_bytes()
    aside = make_room(LocalPlace(tmp_path), NAMING.directory_name(10), 1)
    assert aside is not None
    assert (aside / RECORD).read_bytes() == first
    assert not (tmp_path / NAMING.directory_name(10)).exists()


def test_a_save_without_its_record_does_not_count(tmp_path: Path) -> None:
    write_files(tmp_path / NAMING.directory_name(10))
    assert look(LocalPlace(tmp_path), NAMING.directory_name(10)).state is State.TORN
    assert newest_step(LocalPlace(tmp_path)) == 0


def starts_at(*steps: int, attempt: str = "1") -> list[Start]:
    return [Start(number, attempt, step, "") for number, step in enumerate(steps, 1)]


def test_starts_that_come_to_nothing_stop_the_run() -> None:
    finding = no_progress(starts_at(10, 20, 20, 20, 20), "there", allowed=3)
    assert finding is not None
    assert finding.code == CheckpointCode.NO_PROGRESS
    assert "3 consecutive starts produced no checkpoint after step 20" in finding.rule


@pytest.mark.parametrize("steps", [(20, 20, 20), (10, 20, 30, 40), (20, 20, 20, 30), (0,)])
def test_fewer_or_fruitful_starts_go_on(steps: tuple[int, ...]) -> None:
    assert no_progress(starts_at(*steps), "there", allowed=3) is None


def test_a_new_attempt_counts_anew() -> None:
    starts = [*starts_at(20, 20, 20, 20), Start(5, "2", 20, "")]
    assert no_progress(starts, "there", allowed=3) is None


def test_the_count_is_kept_beside_the_checkpoints(tmp_path: Path) -> None:
    for _ in range(4):
        claim(LocalPlace(tmp_path), "1", 20)
    starts = read_starts(LocalPlace(tmp_path), 3)
    assert [start.incarnation for start in starts] == [2, 3, 4]
    (tmp_path / "seatrial/starts/0000003.json").write_text("torn")
    assert [start.incarnation for start in read_starts(LocalPlace(tmp_path), 3)] == [2, 4]
