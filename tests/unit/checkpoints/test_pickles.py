# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Crafted pickles are refused with a finding, and nothing of them runs."""

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.codes import CheckpointCode
from seatrial.checkpoints.naming import METADATA, directory_name
from seatrial.checkpoints.pickles import PickleError, StoredItem, refuse_unknown, stored_items
from seatrial.checkpoints.place import LocalPlace
from seatrial.checkpoints.verification import verify
from tests.unit.checkpoints.made import archive, crafted_list, make_checkpoint, metadata

NAME = directory_name(10)


class Trap:
    """Unpickled, it makes a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


def test_the_trap_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))  # noqa: S301
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_an_item_is_refused(tmp_path: Path, protocol: int) -> None:
    trap = pickle.dumps({"x": Trap(tmp_path / "sprung")}, protocol=protocol)
    make_checkpoint(tmp_path / "run", 10, item=archive(trap))
    findings = verify(LocalPlace(tmp_path / "run"), NAME)
    assert {finding.code for finding in findings} == {CheckpointCode.PICKLE}
    assert "Nothing of it was run" in findings[0].rule
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_the_list_of_tensors_is_refused(tmp_path: Path, protocol: int) -> None:
    """The attacker has write access, and makes a record for what was put there."""
    with crafted_list(pickle.dumps(Trap(tmp_path / "sprung"), protocol=protocol)):
        make_checkpoint(tmp_path / "run", 10)
    (finding,) = verify(LocalPlace(tmp_path / "run"), NAME)
    assert finding.code == CheckpointCode.PICKLE
    assert "mkdir" in finding.rule
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "file", ["../iter_0000099/__0_i1_0.distcp", "/etc/passwd", METADATA, "nowhere"]
)
def test_the_list_of_tensors_leads_nowhere_else(tmp_path: Path, file: str) -> None:
    with crafted_list(metadata({"layer": (file, 0, 10)})):
        make_checkpoint(tmp_path / "run", 10)
    (finding,) = verify(LocalPlace(tmp_path / "run"), NAME)
    assert finding.code == CheckpointCode.METADATA


def test_an_item_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"), protocol=2)
    make_checkpoint(tmp_path / "run", 10, item=trap)
    codes = {finding.code for finding in verify(LocalPlace(tmp_path / "run"), NAME)}
    assert codes == {CheckpointCode.PICKLE}
    assert not (tmp_path / "sprung").exists()


def test_a_damaged_list_is_not_unpickled(tmp_path: Path) -> None:
    """The digest is looked at first: without the right one the pickle is never opened."""
    make_checkpoint(tmp_path / "run", 10)
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    shutil.copy(tmp_path / "run" / NAME / METADATA, tmp_path / "kept")
    size = (tmp_path / "kept").stat().st_size
    (tmp_path / "run" / NAME / METADATA).write_bytes(trap.ljust(size, b"."))
    (finding,) = verify(LocalPlace(tmp_path / "run"), NAME)
    assert finding.code == CheckpointCode.DIGEST


def test_the_items_of_a_list_are_told_in_order() -> None:
    items = stored_items(metadata({"b": ("f", 10, 5), "a": ("f", 0, 10)}))
    assert items == [StoredItem("a", "f", 0, 10), StoredItem("b", "f", 10, 5)]


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x80\x05.", pickle.dumps({"no": "list"})])
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(PickleError):
        stored_items(data)


def test_instructions_that_hide_what_they_ask_for_are_refused() -> None:
    with pytest.raises(PickleError, match="STACK_GLOBAL"):
        refuse_unknown(pickle.dumps(Trap(Path("x")), protocol=4))
    refuse_unknown(pickle.dumps({"a": [1, 2.0, "b", b"c"]}, protocol=2))
