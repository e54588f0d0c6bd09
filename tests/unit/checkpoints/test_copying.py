# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Copies count when they are whole and read back; what is there already is not sent again."""

import json
import os
from pathlib import Path

import pytest

from seatrial.checkpoints.copying import copy
from seatrial.checkpoints.inventory import SCANNER, look
from seatrial.checkpoints.naming import RECORD, VERIFIED
from seatrial.checkpoints.resumable_verification import verify_noting
from seatrial.checkpoints.verification import verify
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.errors import FindingsError, UsageError
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import make_checkpoint

NAME = NAMING.directory_name(10)


def test_a_copy_is_whole_and_verified(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", 10)
    source, target = LocalPlace(tmp_path / "run"), LocalPlace(tmp_path / "copy")
    told: list[int] = []
    record = copy(source, NAME, target, lambda files, size: told.append(size))
    assert verify(target, NAME) == []
    assert look(target, NAME).verified
    assert told[-1] == record.shards.size


def test_what_is_there_and_right_is_not_sent_again(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", 10)
    source, target = LocalPlace(tmp_path / "run"), LocalPlace(tmp_path / "copy")
    copy(source, NAME, target)
    here = tmp_path / "copy" / NAME
    (here / RECORD).unlink()
    (here / "__1_i1_0.distcp").write_bytes(b"cut short")
    before = os.stat(here / "__0_i1_0.distcp")
    copy(source, NAME, target)
    assert os.stat(here / "__0_i1_0.distcp").st_ino == before.st_ino
    assert verify(target, NAME) == []


def test_a_damaged_one_is_not_copied(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", 10)
    file = tmp_path / "run" / NAME / "__1_i1_0.distcp"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    target = LocalPlace(tmp_path / "copy")
    with pytest.raises(FindingsError) as caught:
        copy(LocalPlace(tmp_path / "run"), NAME, target)
    assert caught.value.findings[0].code == CheckpointCode.DIGEST
    assert look(target, NAME).record is None


def test_another_checkpoint_of_the_step_is_left_alone(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", 10)
    make_checkpoint(tmp_path / "other", 10)
    with pytest.raises(UsageError, match="a different checkpoint for this step"):
        copy(LocalPlace(tmp_path / "run"), NAME, LocalPlace(tmp_path / "other"))


def test_a_verification_goes_on_where_it_was_cut_short(tmp_path: Path) -> None:
    record = make_checkpoint(tmp_path, 10)
    place = LocalPlace(tmp_path)
    note = {"at": "2026-01-01T00:00:00Z", "record": record.identity, "files": 2, "wrong": 0}
    note["scanner"] = SCANNER
    (tmp_path / NAME / VERIFIED).write_text(json.dumps(note))
    assert not look(place, NAME).verified
    told: list[int] = []
    assert verify_noting(place, look(place, NAME), tell=lambda files, _: told.append(files)) == []
    assert told == [3, 4]
    assert look(place, NAME).verified


def test_a_verification_of_another_record_does_not_count(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 10)
    note = {"at": "2026-01-01T00:00:00Z", "record": "other", "files": 4, "wrong": 0}
    (tmp_path / NAME / VERIFIED).write_text(json.dumps(note))
    assert look(LocalPlace(tmp_path), NAME).verification is None
