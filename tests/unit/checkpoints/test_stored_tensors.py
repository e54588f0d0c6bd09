# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint holds is read without running anything of it."""

import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.engines.megatron.checkpoints import COMMON, contents_of
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import archive, metadata
from tests.unit.checkpoints.test_pickles import Trap


def write(root: Path, common: Any, protocol: int = 2) -> None:
    item = archive(pickle.dumps([common], protocol=protocol))
    (root / "x").mkdir()
    (root / "x" / "__0_0.distcp").write_bytes(b"before" + item)
    places = {COMMON: ("__0_0.distcp", 6, len(item))}
    (root / "x" / METADATA).write_bytes(metadata(places))


def test_the_arguments_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"args": Namespace(num_layers=4, lr=0.5, names=["a"]), "iteration": 3})
    there = contents_of(LocalPlace(tmp_path), "x")
    assert there.arguments == {"num_layers": 4, "lr": 0.5, "names": ["a"]}
    assert there.tensors == {}


def test_code_beside_the_arguments_is_not_run(tmp_path: Path) -> None:
    write(tmp_path, {"args": Namespace(num_layers=4), "x": Trap(tmp_path / "sprung")})
    with pytest.raises(UnsafeFileError, match="mkdir"):
        contents_of(LocalPlace(tmp_path), "x")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("common", [{"iteration": 3}, 7])
def test_a_checkpoint_without_arguments_is_refused(tmp_path: Path, common: Any) -> None:
    write(tmp_path, common)
    with pytest.raises(UnsafeFileError, match="contains no engine arguments"):
        contents_of(LocalPlace(tmp_path), "x")


def test_a_list_without_the_common_item_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / METADATA).write_bytes(metadata({}))
    with pytest.raises(UnsafeFileError, match="is incomplete"):
        contents_of(LocalPlace(tmp_path), "x")
