# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A commit on storage that shows the files of other nodes late."""

from pathlib import Path

import pytest

from seatrial.checkpoints.commit import CommitError, commit, read_back, saved_names
from seatrial.checkpoints.inventory import newest_step
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.storage.location import LocalPlace
from seatrial.storage.visibility import DEFAULT_SECONDS, visible_after_seconds, wait_until
from tests.late_files import LateFiles
from tests.unit.checkpoints.made import record, write_files

NAME = NAMING.directory_name(20)
LATE = 0.5


def test_a_shard_of_another_node_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, files = LocalPlace(tmp_path), write_files(tmp_path / NAME)
    late = LateFiles(lambda name: name == files[0].name, LATE)
    late.install(monkeypatch.setattr)
    with pytest.raises(CommitError, match="No such file"):
        commit(place, files, record(20))
    commit(place, files, record(20), patience=20 * LATE)
    assert late.denied > 1
    assert newest_step(place) == 20


def test_a_shard_that_never_shows_is_refused_after_the_limit(tmp_path: Path) -> None:
    place, files = LocalPlace(tmp_path), write_files(tmp_path / NAME)
    (tmp_path / NAME / files[0].name).unlink()
    with pytest.raises(CommitError, match="No such file"):
        commit(place, files, record(20), patience=LATE)


def test_a_listing_waits_for_all_files_that_the_tensors_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path / NAME)
    every = saved_names(tmp_path / NAME, 0.0)
    assert {file.name for file in files} <= set(every)
    late = LateFiles(lambda name: name == files[-1].name, LATE)
    late.install(monkeypatch.setattr)
    assert files[-1].name not in saved_names(tmp_path / NAME, 0.0)
    assert saved_names(tmp_path / NAME, 20 * LATE) == every


def test_a_file_is_hashed_once_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "shard"
    file.write_bytes(b"weights")
    late = LateFiles(lambda name: name == "shard", LATE)
    late.install(monkeypatch.setattr)
    assert read_back(file, 20 * LATE).size == 7
    assert late.denied > 1


@pytest.mark.parametrize(
    ("given", "seconds"), [("240", 240.0), ("0", 0.0), ("-1", 10.0), ("nan", 10.0), ("soon", 10.0)]
)
def test_the_limit_is_that_of_the_storage(
    monkeypatch: pytest.MonkeyPatch, given: str, seconds: float
) -> None:
    assert visible_after_seconds() == DEFAULT_SECONDS
    monkeypatch.setenv("SEATRIAL_VISIBLE_AFTER_SECONDS", given)
    assert visible_after_seconds() == seconds


def test_a_look_is_taken_even_without_time() -> None:
    assert wait_until(lambda: True, 0.0)
    assert not wait_until(lambda: False, 0.0)
