# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A disk that fails while a checkpoint is read makes a finding, whichever look at it fails."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from seatrial.checkpoints.copying import copy
from seatrial.checkpoints.inventory import look
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.verification import read_record, verify
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.storage.directory import LocalStore
from seatrial.storage.location import LocalPlace
from seatrial.storage.store import StoreError
from tests.unit.checkpoints.made import make_checkpoint

NAME = NAMING.directory_name(10)


class Disk:
    """Fails at one look, and counts them."""

    def __init__(self, failing: int, number: int = errno.EIO) -> None:
        self.looks = 0
        self._failing = failing
        self._number = number

    def look(self) -> None:
        self.looks += 1
        if self.looks == self._failing:
            raise OSError(self._number, os.strerror(self._number))


class DiskStore(LocalStore):
    """Small files of such a disk."""

    def __init__(self, root: Path, disk: Disk) -> None:
        super().__init__(root)
        self._disk = disk

    def read(self, path: str) -> bytes:
        try:
            self._disk.look()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}.") from error
        return super().read(path)


class DiskPlace(LocalPlace):
    """Checkpoints on such a disk."""

    def __init__(self, root: Path, disk: Disk) -> None:
        super().__init__(root)
        self.store = DiskStore(root, disk)
        self._disk = disk

    def names(self, directory: str) -> Iterator[str]:
        self._disk.look()
        return super().names(directory)

    def size(self, path: str) -> int | None:
        self._disk.look()
        return super().size(path)

    def open(self, path: str) -> BinaryIO:
        self._disk.look()
        return super().open(path)


def verified(root: Path, disk: Disk) -> list[Finding]:
    return verify(DiskPlace(root, disk), NAME, threads=1)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_every_look_that_fails_is_a_finding(tmp_path: Path, number: int) -> None:
    make_checkpoint(tmp_path, 10)
    quiet = Disk(failing=0)
    assert verified(tmp_path, quiet) == []
    # The record, the list twice, the directory, and every file: its size, its bytes, its items.
    assert quiet.looks >= 12
    for failing in range(1, quiet.looks + 1):
        (finding,) = verified(tmp_path, Disk(failing, number))
        assert finding.code == CheckpointCode.UNREADABLE, failing
        assert os.strerror(number) in finding.rule


def test_a_directory_that_cannot_be_listed_says_which(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("a file")
    with pytest.raises(StoreError, match=f"{NAME}: Not a directory"):
        list(LocalPlace(tmp_path).names(NAME))


def test_a_copy_says_what_cannot_be_read_at_its_source(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", 10)
    quiet = Disk(failing=0)
    copy(DiskPlace(tmp_path / "run", quiet), NAME, LocalPlace(tmp_path / "first"))
    record, _ = read_record(LocalPlace(tmp_path / "run"), NAME)
    assert record is not None
    # The record, the list twice, every file; the list once more is a small file of the store.
    for failing in range(1, 4 + record.shards.files):
        target = LocalPlace(tmp_path / f"copy-{failing}")
        with pytest.raises(FindingsError) as caught:
            copy(DiskPlace(tmp_path / "run", Disk(failing)), NAME, target)
        assert caught.value.findings[0].code == CheckpointCode.UNREADABLE
        assert look(target, NAME).record is None


@pytest.mark.parametrize("failing", [2, 3, 4])
def test_what_cannot_be_read_at_the_other_end_is_sent_again(tmp_path: Path, failing: int) -> None:
    make_checkpoint(tmp_path / "run", 10)
    source, there = LocalPlace(tmp_path / "run"), tmp_path / "copy" / NAME
    copy(source, NAME, LocalPlace(tmp_path / "copy"))
    (there / RECORD).unlink()
    before = {file.name: file.stat().st_ino for file in there.iterdir()}
    # The first look is for the record; then come sizes and bytes of files.
    copy(source, NAME, DiskPlace(tmp_path / "copy", Disk(failing)))
    shards = [name for name in before if name.endswith("distcp") or "metadata" in name]
    assert sum((there / name).stat().st_ino != before[name] for name in shards) == 1
    assert verify(LocalPlace(tmp_path / "copy"), NAME) == []


def test_the_fix_names_the_setting_of_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(
        StoreError, match=r"Set checkpoints\.location \(or --to\) to an existing or new directory"
    ):
        LocalPlace(tmp_path / "file").store.create("tracker", b"x")
