# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Composer's checkpoints: the same record, verification, verdict and retention as Megatron's."""

from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.by_engine import setup_of
from seatrial.checkpoints.commit import commit, make_room, read_back
from seatrial.checkpoints.inventory import State, checkpoints, newest_step, set_aside
from seatrial.checkpoints.naming import step_of
from seatrial.checkpoints.retention import Policy, decide, remove
from seatrial.checkpoints.setup import Setup
from seatrial.checkpoints.starts import claim
from seatrial.checkpoints.verdict import Resume, verdict
from seatrial.checkpoints.verification import verify
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.engines.llm_foundry.checkpoints import SHARDED, WHOLE, flat
from seatrial.recipes.shipped import recipe
from seatrial.sdk.plan import load_plan
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import archive, record, write_files


def wanted(*overrides: str) -> Setup:
    return setup_of(load_plan(recipe("aks-mpt-125m").path, list(overrides), Catalog())[1])


def save(root: Path, step: int, setup: Setup) -> None:
    """A checkpoint as Composer writes it, committed."""
    place, name = LocalPlace(root), f"ba{step}"
    if setup.checkpoint_format == SHARDED:
        write_files(root / name)
        (root / name / "metadata.json").unlink()
    else:
        (root / name).mkdir(parents=True)
        (root / name / "rank0.pt").write_bytes(archive({"a": 1}, bytes(range(256)) * step))
    if not list(place.names("seatrial/starts")):
        claim(place, "1", 0)
    files = [read_back(path) for path in sorted((root / name).iterdir())]
    commit(place, files, record(step, setup=setup))


@pytest.mark.parametrize(
    ("name", "step"),
    [("ba500", 500), ("ba0500", None), ("ba", None), ("iter_0000500", 500), ("iter_500", None)],
)
def test_the_step_of_a_directory(name: str, step: int | None) -> None:
    assert step_of(name) == step


@pytest.mark.parametrize("sharded", [True, False])
def test_a_save_counts_and_damage_is_found(sharded: bool, tmp_path: Path) -> None:
    setup = wanted()
    assert setup.checkpoint_format == SHARDED
    if not sharded:
        setup = wanted("parallelism.sharding=none")
        assert setup.checkpoint_format == WHOLE
    place = LocalPlace(tmp_path)
    save(tmp_path, 9, setup)
    save(tmp_path, 10, setup)
    (tmp_path / "ba11").mkdir()
    states = {one.step: one.state for one in checkpoints(place)}
    assert states == {11: State.TORN, 10: State.COMMITTED, 9: State.COMMITTED}
    assert newest_step(place) == 10
    assert verify(place, "ba10") == []
    file = next(path for path in (tmp_path / "ba10").glob("*0*.*t*") if "seatrial" not in path.name)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert [finding.code for finding in verify(place, "ba10")] == [CheckpointCode.DIGEST]


def test_a_step_that_is_saved_again_is_set_aside_and_old_ones_go(tmp_path: Path) -> None:
    place, setup = LocalPlace(tmp_path), wanted("parallelism.sharding=none")
    for step in (8, 9, 10, 11):
        save(tmp_path, step, setup)
    assert make_room(place, "ba11", 1) == tmp_path / "ba11.replaced-by-1"
    assert set_aside(place) == {"ba11.replaced-by-1": None}
    for decision in decide(list(checkpoints(place)), {}, Policy(last=2)):
        if not decision.kept:
            remove(place, decision.directory)
    assert [one.step for one in checkpoints(place)] == [10, 9]


def test_the_verdict() -> None:
    saved = wanted()
    assert verdict(saved, wanted()).outcome is Resume.SAFE
    assert verdict(saved, wanted("cluster.nodes=1")).outcome is Resume.RESHARDED
    assert verdict(saved, wanted("training.seed=5")).outcome is Resume.DATA_CHANGES
    other = wanted("parallelism.sharding=none")
    assert verdict(saved, other).outcome is Resume.IMPOSSIBLE
    padded = replace(saved, model=replace(saved.model, padded_vocab_size=50_000))
    assert verdict(padded, saved).outcome is Resume.IMPOSSIBLE


def test_settings_have_the_names_of_their_sections() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": {}}, "e": None}) == {"a.b.c": 1, "a.d": {}, "e": None}
