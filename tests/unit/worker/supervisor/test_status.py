# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The file that probes read is whole, and a disk that takes nothing gets nothing left on it."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.worker.supervisor.status import FILE, SupervisorStatus, read_status, write_status

OWN = SupervisorStatus(time=1.0, phase="train", step=3, silent=0.5, limit=60.0, restarts=0)
LATER = replace(OWN, time=2.0, step=4)


def test_a_status_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for status in (OWN, LATER):
        write_status(tmp_path, status)
        assert read_status(tmp_path) == status
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("call", ["fdopen", "replace"])
def test_a_full_disk_keeps_the_status_before_and_no_file_beside_it(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_status(tmp_path, OWN)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    write_status(tmp_path, LATER)
    monkeypatch.undo()
    assert read_status(tmp_path) == OWN
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
