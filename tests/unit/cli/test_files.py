# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A file is written whole or not at all."""

import os
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.sdk.output_files import write_new


def test_a_new_file_is_written_and_an_old_one_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    write_new(path, "× first\n", force=False)
    with pytest.raises(UsageError, match=r"run\.yaml exists\."):
        write_new(path, "second\n", force=False)
    assert path.read_text(encoding="utf-8") == "× first\n"
    assert os.listdir(tmp_path) == ["run.yaml"]


def test_force_replaces_what_a_link_points_to_and_keeps_its_mode(tmp_path: Path) -> None:
    path, link = tmp_path / "run.yaml", tmp_path / "link.yaml"
    path.write_text("first\n")
    path.chmod(0o600)
    link.symlink_to(path)
    write_new(link, "second\n", force=True)
    assert link.is_symlink()
    assert path.read_text() == "second\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("first\n")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=f"cannot write {path}: No space left on device"):
        write_new(path, "second\n", force=True)
    assert path.read_text() == "first\n"
    assert os.listdir(tmp_path) == ["run.yaml"]


def test_a_directory_that_is_not_there_is_to_be_made(tmp_path: Path) -> None:
    above = tmp_path / "not" / "there"
    with pytest.raises(UsageError, match=f"{above} does not exist. Create it: mkdir -p {above}"):
        write_new(above / "run.yaml", "text\n", force=False)


def test_a_directory_and_a_device_are_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*: Is a directory"):
        write_new(tmp_path, "text\n", force=True)
    write_new(Path(os.devnull), "text\n", force=False)
    assert not Path(os.devnull).is_file()
