# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What prune keeps: the last, multiples, the best, pins; and always the last two verified."""

from pathlib import Path

import pytest

from seatrial.checkpoints.commit import commit, make_room
from seatrial.checkpoints.inventory import Checkpoint, State, checkpoints, look, set_aside
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.resumable_verification import pin, unpin, verify_noting
from seatrial.checkpoints.retention import Policy, decide, remove, retire
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import flip, make_checkpoint, record, write_files


def kept(root: Path, policy: Policy) -> list[int]:
    place = LocalPlace(root)
    decisions = decide(list(checkpoints(place)), set_aside(place), policy)
    return [one.step for one in decisions if one.kept]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run")
    losses = {10: 3.0, 20: 1.0, 30: 2.0, 40: None, 50: 2.5}
    for step, loss in losses.items():
        make_checkpoint(root, step, validation_loss=loss, size=200)
    return root


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        (Policy(last=3), [50, 40, 30]),
        # Nothing is verified: the last two committed ones stay.
        (Policy(last=1), [50, 40]),
        (Policy(last=1, every_steps=20), [50, 40, 20]),
        (Policy(last=1, best=1), [50, 40, 20]),
        (Policy(last=1, best=2), [50, 40, 30, 20]),
    ],
)
def test_what_is_kept(pristine: Path, policy: Policy, steps: list[int]) -> None:
    assert kept(pristine, policy) == steps


def verified(root: Path, step: int) -> None:
    place = LocalPlace(root)
    assert verify_noting(place, look(place, NAMING.directory_name(step))) == []


def test_the_last_two_verified_stay(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        make_checkpoint(tmp_path, step, size=200)
    verified(tmp_path, 10)
    verified(tmp_path, 20)
    assert kept(tmp_path, Policy(last=1)) == [40, 20, 10]
    verified(tmp_path, 30)
    assert kept(tmp_path, Policy(last=1)) == [40, 30, 20]


def test_the_only_verified_one_stays(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        make_checkpoint(tmp_path, step, size=200)
    verified(tmp_path, 10)
    assert kept(tmp_path, Policy(last=1)) == [40, 10]


def test_a_damaged_one_is_not_one_of_the_safe(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        make_checkpoint(tmp_path, step, size=200)
        verified(tmp_path, step)
    (tmp_path / NAMING.directory_name(30) / "__0_i1_0.distcp").write_bytes(b"")
    place = LocalPlace(tmp_path)
    assert verify_noting(place, look(place, NAMING.directory_name(30)), again=True)
    assert kept(tmp_path, Policy(last=1)) == [20, 10]


def test_pins_hold_until_they_are_taken_off(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        make_checkpoint(tmp_path, step, size=200)
    place = LocalPlace(tmp_path)
    pin(place, NAMING.directory_name(10), "paper")
    assert kept(tmp_path, Policy(last=1)) == [30, 20, 10]
    unpin(place, NAMING.directory_name(10))
    assert kept(tmp_path, Policy(last=1)) == [30, 20]


def test_pins_hold_where_the_step_was_saved_again(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 10, size=200)
    place = LocalPlace(tmp_path)
    pin(place, NAMING.directory_name(10), "paper")
    make_room(place, NAMING.directory_name(10), 1)
    (decision,) = decide([], set_aside(place), Policy())
    assert (decision.kept, decision.why) == (True, "pinned: paper")
    unpin(place, decision.directory)
    (decision,) = decide([], set_aside(place), Policy())
    assert not decision.kept


def test_a_save_on_its_way_is_spared_after_a_return_behind_damaged_ones(tmp_path: Path) -> None:
    for step in (10, 30):
        make_checkpoint(tmp_path, step, size=200)
    flip(tmp_path / NAMING.directory_name(30) / "__0_i1_0.distcp")
    place = LocalPlace(tmp_path)
    verify_noting(place, look(place, NAMING.directory_name(30)))
    write_files(tmp_path / NAMING.directory_name(20), size=200)
    assert 20 in kept(tmp_path, Policy())


def test_one_that_was_committed_since_the_decision_stays(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 30, size=200)
    shards = write_files(tmp_path / NAMING.directory_name(20), size=200, incarnation=1)
    place = LocalPlace(tmp_path)
    torn = next(d for d in decide(list(checkpoints(place)), {}, Policy()) if d.step == 20)
    assert not torn.kept
    commit(place, shards, record(20))
    assert not retire(place, torn)
    assert look(place, torn.directory).state is State.COMMITTED


def test_torn_ones_go_unless_they_may_be_on_their_way(tmp_path: Path) -> None:
    for step in (20, 30):
        make_checkpoint(tmp_path, step, size=200)
    for step in (10, 40):
        write_files(tmp_path / NAMING.directory_name(step), size=200)
    assert kept(tmp_path, Policy()) == [40, 30, 20]


def test_removing_takes_the_record_first_and_then_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_checkpoint(tmp_path, 10, size=200)
    place, there = LocalPlace(tmp_path), tmp_path / NAMING.directory_name(10)

    def power_cut(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", power_cut)
        with pytest.raises(KeyboardInterrupt):
            remove(place, there.name)
    assert not (there / RECORD).exists()
    assert there.exists()
    remove(place, there.name)
    assert not there.exists()


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "elsewhere", 10, size=200)
    (tmp_path / "run").mkdir()
    link = tmp_path / "run" / NAMING.directory_name(10)
    link.symlink_to(tmp_path / "elsewhere" / NAMING.directory_name(10))
    found: list[Checkpoint] = list(checkpoints(LocalPlace(tmp_path / "run")))
    assert [one.step for one in found] == [10]
    remove(LocalPlace(tmp_path / "run"), link.name)
    assert not link.is_symlink()
    assert (tmp_path / "elsewhere" / NAMING.directory_name(10) / RECORD).exists()
