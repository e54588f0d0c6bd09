# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A commit is whole or not at all, and what was committed before stays."""

import errno
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.checkpoints.commit import CommitError, commit, make_room, write_tracker
from seatrial.checkpoints.inventory import look, newest_step, tracked_step
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.record import RecordError, ShardFile, record_from_bytes
from seatrial.checkpoints.setup import SavedConstants, SavedSchedule
from seatrial.checkpoints.starts import claim
from seatrial.checkpoints.verification import verify
from seatrial.engines.megatron.checkpoint_names import NAMING, TRACKER
from seatrial.hashing import canonical_json, digest
from seatrial.storage.location import LocalPlace
from seatrial.storage.store import StoreError
from tests.unit.checkpoints.made import SETUP, make_checkpoint, record, write_files

NAME = NAMING.directory_name(20)


@pytest.fixture
def place(tmp_path: Path) -> LocalPlace:
    make_checkpoint(tmp_path, 10)
    return LocalPlace(tmp_path)


def before_the_commit(place: LocalPlace) -> list[ShardFile]:
    return write_files(Path(place.address, NAME))


def test_a_file_that_is_shorter_than_written_is_refused(place: LocalPlace) -> None:
    files = before_the_commit(place)
    short = Path(place.address, NAME, files[0].name)
    short.write_bytes(short.read_bytes()[:-1])
    with pytest.raises(CommitError, match="the file has"):
        commit(place, files, record(20))
    assert newest_step(place) == 10


def test_a_file_that_is_gone_is_refused(place: LocalPlace) -> None:
    files = before_the_commit(place)
    with pytest.raises(CommitError, match="No such file"):
        commit(place, [*files, replace(files[0], name="__7_i1_0.distcp")], record(20))
    assert newest_step(place) == 10


@pytest.mark.parametrize("missing", [".metadata", "metadata.json"])
def test_the_engine_s_own_files_belong_to_it(place: LocalPlace, missing: str) -> None:
    files = before_the_commit(place)
    Path(place.address, NAME, missing).unlink()
    if missing == ".metadata":
        with pytest.raises(CommitError):
            commit(place, files, record(20))
        return
    # Only one of the engine's formats has this file.
    commit(place, files, record(20))
    assert verify(place, NAME) == []


def test_a_full_disk_leaves_the_checkpoint_before(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = before_the_commit(place)

    def full(path: str, data: bytes) -> bool:
        raise StoreError("No space left on device.")

    monkeypatch.setattr(place.store, "create", full)
    with pytest.raises(StoreError):
        commit(place, files, record(20))
    assert look(place, NAME).record is None
    assert newest_step(place) == 10
    assert verify(place, NAMING.directory_name(10)) == []


def test_only_one_of_two_commits_counts(place: LocalPlace) -> None:
    files = before_the_commit(place)
    first = commit(place, files, record(20)).record
    with pytest.raises(CommitError, match="another process has committed"):
        commit(place, files, record(20))
    assert look(place, NAME).record == first


def test_what_a_torn_save_left_is_removed(place: LocalPlace) -> None:
    before_the_commit(place)
    start = claim(place, "1", 10)
    files = write_files(Path(place.address, NAME), incarnation=start.incarnation)
    Path(place.address, NAME, "notes.txt").write_text("mine")
    commit(place, files, record(20, start.incarnation))
    names = sorted(place.names(NAME))
    assert names == [
        *(".metadata", "__0_i2_0.distcp", "__1_i2_0.distcp", "metadata.json", "notes.txt"),
        *(RECORD, "seatrial-shards-2.jsonl"),
    ]


@pytest.mark.parametrize("known", [0, 1])
def test_a_save_whose_digests_did_not_come_back_neither_counts_nor_loses_a_file(
    place: LocalPlace, known: int
) -> None:
    files = before_the_commit(place)
    there = sorted(place.names(NAME))
    with pytest.raises(CommitError, match=f"{2 - known} of 2 checkpoint shards .* have no digest"):
        commit(place, files[:known], record(20))
    assert sorted(place.names(NAME)) == there
    assert newest_step(place) == 10


def test_a_list_of_tensors_that_cannot_be_read_is_refused(place: LocalPlace) -> None:
    files = before_the_commit(place)
    Path(place.address, NAME, ".metadata").write_bytes(b"x")
    with pytest.raises(CommitError, match="cannot read the engine's list of tensors"):
        commit(place, files, record(20))
    assert newest_step(place) == 10


def test_a_save_that_is_tried_again_takes_the_room_of_the_tries_before(place: LocalPlace) -> None:
    """Each start that is cut short in its save leaves the shards; a full disk would stay full."""
    for _ in range(3):
        start = claim(place, "1", 10).incarnation
        assert make_room(place, NAMING.directory_name(20), start) is None
        files = write_files(Path(place.address, NAME), incarnation=start)
    Path(place.address, NAME, "notes.txt").write_text("mine")
    Path(place.address, NAME, f"seatrial-shards-{start - 1}.jsonl").write_text("")
    assert make_room(place, NAMING.directory_name(20), start) is None
    # Neither what this start has written itself nor what nobody knows is touched.
    shards = [file.name for file in files]
    assert sorted(place.names(NAME)) == [".metadata", *shards, "metadata.json", "notes.txt"]


def test_a_committed_step_is_set_aside_whole(place: LocalPlace) -> None:
    start = claim(place, "1", 10).incarnation
    before = sorted(place.names(NAMING.directory_name(10)))
    aside = make_room(place, NAMING.directory_name(10), start)
    assert aside is not None
    assert sorted(place.names(aside.name)) == before


def failing_at_directories(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the file system refuse to sync the names in a directory."""
    real = os.fsync

    def fsync(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_disk_that_fails_at_the_names_makes_no_checkpoint(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = before_the_commit(place)
    failing_at_directories(monkeypatch, errno.EIO)
    with pytest.raises((CommitError, StoreError), match="Input/output error"):
        commit(place, files, record(20))
    assert newest_step(place) == 10


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_share_that_cannot_sync_names_is_no_broken_disk(
    place: LocalPlace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    files = before_the_commit(place)
    failing_at_directories(monkeypatch, number)
    assert commit(place, files, record(20)).record.step == 20


def test_the_tracker_is_replaced_whole(place: LocalPlace) -> None:
    write_tracker(place, TRACKER, "20")
    assert tracked_step(place) == 20
    assert [name for name in place.names("") if "tilde" in name or "~" in name] == []


@pytest.mark.parametrize("change", [b" ", b"\n", b"x"])
def test_a_record_with_a_byte_more_is_none(place: LocalPlace, change: bytes) -> None:
    data = Path(place.address, NAMING.directory_name(10), RECORD).read_bytes()
    assert record_from_bytes(data).step == 10
    with pytest.raises(RecordError):
        record_from_bytes(data + change)
    with pytest.raises(RecordError):
        record_from_bytes(data.replace(b'"step":10', b'"step":11'))


@pytest.mark.parametrize(
    ("name", "value"), [("world_size", 3), ("tp_size", "a"), ("dp_size", None)]
)
def test_a_layout_of_other_ranks_is_no_record(name: str, value: object) -> None:
    values = json.loads(record(10).to_bytes())
    del values["digest"]
    assert values["setup"]["layout"]["world_size"] == SETUP.layout.world_size
    values["setup"]["layout"][name] = value
    with pytest.raises(RecordError):
        record_from_bytes(canonical_json({**values, "digest": digest(values)}).encode())


def test_a_record_from_before_the_constants_reads_as_it_was_written() -> None:
    rotated = SavedConstants(10000.0, 1.0, 0.0, 1e-5)
    for setup in (SETUP, replace(SETUP, constants=rotated)):
        data = record(10, setup=setup).to_bytes()
        assert (b"constants" in data) == (setup.constants is not None)
        assert record_from_bytes(data).setup == setup


def test_a_record_from_before_the_schedule_reads_as_it_was_written() -> None:
    rate = SavedSchedule(1e-4, 1e-5, "cosine", 40, 400)
    for setup in (SETUP, replace(SETUP, schedule=rate)):
        data = record(10, setup=setup).to_bytes()
        assert (b"schedule" in data) == (setup.schedule is not None)
        assert record_from_bytes(data).setup == setup
