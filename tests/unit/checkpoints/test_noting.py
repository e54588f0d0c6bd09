# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A verification that is cut short, notes of it that are garbage, and what is known thereafter."""

from pathlib import Path

import pytest

from seatrial.checkpoints import resumable_verification
from seatrial.checkpoints.inventory import (
    SCANNER,
    State,
    Verification,
    checkpoints,
    look,
    newest_step,
)
from seatrial.checkpoints.naming import PIN, VERIFIED
from seatrial.checkpoints.resumable_verification import verify_noting
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import archive, flip, make_checkpoint

HERE = NAMING.directory_name(10)


def cut_short(place: LocalPlace, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify so many files, and be interrupted."""

    def stop(files: int, size: int) -> None:
        if files > after:
            raise KeyboardInterrupt

    monkeypatch.setattr(resumable_verification, "NOTE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        verify_noting(place, look(place, HERE), threads=1, tell=stop)


def test_damage_that_was_seen_before_the_cut_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_checkpoint(tmp_path, 10, ranks=8)
    flip(tmp_path / HERE / "__0_i1_0.distcp")
    place = LocalPlace(tmp_path)
    cut_short(place, 4, monkeypatch)
    assert look(place, HERE).state is State.DAMAGED
    assert verify_noting(place, look(place, HERE))
    assert not look(place, HERE).verified


def test_a_good_one_goes_on_where_it_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_checkpoint(tmp_path, 10, ranks=8)
    place = LocalPlace(tmp_path)
    cut_short(place, 4, monkeypatch)
    read: list[int] = []
    assert verify_noting(place, look(place, HERE), tell=lambda files, _: read.append(files)) == []
    assert read[0] == 5
    assert look(place, HERE).verified


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"garbage",
        b"[" * 100_000,
        b"{}",
        b'{"at": "garbage", "record": "", "files": 1, "wrong": 0}',
        b'{"at": "2026-01-01T00:00:00Z", "record": "", "files": "1", "wrong": 0}',
    ],
)
@pytest.mark.parametrize("name", [VERIFIED, PIN])
def test_a_note_that_is_garbage_stops_nobody(tmp_path: Path, name: str, note: bytes) -> None:
    make_checkpoint(tmp_path, 10)
    (tmp_path / HERE / name).write_bytes(note)
    (one,) = checkpoints(LocalPlace(tmp_path))
    assert one.state is State.COMMITTED
    assert one.verification is None
    # Somebody wanted to keep it.
    assert (one.pinned is not None) == (name == PIN)


@pytest.mark.parametrize("name", [VERIFIED, PIN])
def test_a_directory_in_place_of_a_note_stops_nobody(tmp_path: Path, name: str) -> None:
    make_checkpoint(tmp_path, 10)
    (tmp_path / HERE / name).mkdir()
    assert newest_step(LocalPlace(tmp_path)) == 10


def test_one_that_is_known_to_be_damaged_is_not_the_newest(tmp_path: Path) -> None:
    for step in (10, 20):
        make_checkpoint(tmp_path, step)
    place, newer = LocalPlace(tmp_path), NAMING.directory_name(20)
    flip(tmp_path / newer / "__0_i1_0.distcp")
    assert newest_step(place) == 20
    verify_noting(place, look(place, newer))
    # So that a run which goes on from step 10 is seen to get on.
    assert newest_step(place) == 10


def note(place: LocalPlace, files: int, wrong: int = 0, scanner: int = SCANNER) -> None:
    """Write a note as somebody else would, or as an older version did."""
    record = look(place, HERE).record
    assert record is not None
    said = Verification("2026-01-01T00:00:00Z", record.identity, files, wrong, scanner)
    (Path(place.address) / HERE / VERIFIED).write_bytes(said.to_bytes())


@pytest.mark.parametrize("left", [0, 1])
def test_no_note_spares_the_scan_for_code(tmp_path: Path, left: int) -> None:
    record = make_checkpoint(tmp_path, 10, item=archive(b"\x80\x02cos\nsystem\n."))
    place = LocalPlace(tmp_path)
    note(place, record.shards.files - left)
    findings = verify_noting(place, look(place, HERE))
    assert {finding.code for finding in findings} == {CheckpointCode.PICKLE}
    assert look(place, HERE).state is State.DAMAGED


def test_a_note_of_an_older_scanner_counts_only_for_damage(tmp_path: Path) -> None:
    record = make_checkpoint(tmp_path, 10)
    place = LocalPlace(tmp_path)
    note(place, record.shards.files, scanner=0)
    assert not look(place, HERE).verified
    note(place, record.shards.files, wrong=1, scanner=0)
    assert look(place, HERE).state is State.DAMAGED


def test_scanning_again_does_not_make_a_verification_younger(tmp_path: Path) -> None:
    record = make_checkpoint(tmp_path, 10)
    place = LocalPlace(tmp_path)
    note(place, record.shards.files)
    assert verify_noting(place, look(place, HERE)) == []
    seen = look(place, HERE).verification
    assert seen is not None
    assert seen.at == "2026-01-01T00:00:00Z"
