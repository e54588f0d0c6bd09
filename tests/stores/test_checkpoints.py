# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in object stores: copied there and back, listed, verified, pinned and pruned."""

from pathlib import Path
from uuid import uuid4

import pytest

from seatrial.checkpoints.copying import copy
from seatrial.checkpoints.inventory import State, checkpoints, look
from seatrial.checkpoints.resumable_verification import pin, verify_noting
from seatrial.checkpoints.retention import remove
from seatrial.checkpoints.verification import verify
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.findings import has_errors
from seatrial.storage.location import LocalPlace, ObjectPlace
from tests.stores.conftest import Running
from tests.unit.checkpoints.made import make_checkpoint

pytestmark = [
    pytest.mark.stores,
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),
]


def test_there_and_back(server: Running, tmp_path: Path) -> None:
    for step in (10, 20):
        make_checkpoint(tmp_path / "run", step)
    local, place = LocalPlace(tmp_path / "run"), ObjectPlace(f"{server.root}/{uuid4().hex}/data")
    assert list(checkpoints(place)) == []
    for step in (10, 20):
        copy(local, NAMING.directory_name(step), place)
    assert [(one.step, one.verified) for one in checkpoints(place)] == [(20, True), (10, True)]
    pin(place, NAMING.directory_name(10), "paper")
    assert look(place, NAMING.directory_name(10)).pinned == "paper"
    back = LocalPlace(tmp_path / "back")
    copy(place, NAMING.directory_name(20), back)
    assert verify(back, NAMING.directory_name(20)) == []
    for file in (tmp_path / "back" / NAMING.directory_name(20)).glob("*.distcp"):
        assert file.read_bytes() == (tmp_path / "run" / file.parent.name / file.name).read_bytes()
    remove(place, NAMING.directory_name(10))
    assert [one.step for one in checkpoints(place)] == [20]


def test_damage_in_a_store_is_found(server: Running, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", 10)
    name = NAMING.directory_name(10)
    place = ObjectPlace(f"{server.root}/{uuid4().hex}/data")
    copy(LocalPlace(tmp_path / "run"), name, place)
    file = tmp_path / "run" / name / "__0_i1_0.distcp"
    data = bytearray(file.read_bytes())
    data[50] ^= 1
    place.replace(f"{name}/{file.name}", bytes(data))
    assert has_errors(verify_noting(place, look(place, name), again=True))
    assert look(place, name).state is State.DAMAGED
    place.store.delete([f"{name}/{file.name}"])
    assert has_errors(verify(place, name))
