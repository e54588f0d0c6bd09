# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A third engine, a plain loop of torch, is rehearsed; its checkpoints count as any others do."""

from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.inventory import checkpoints
from seatrial.checkpoints.verification import verify
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.rehearsal.drills import DrillName
from seatrial.rehearsal.rehearse import RehearsalRequest, make_twins, run_drills
from seatrial.spec.loader import loads
from seatrial.storage.location import LocalPlace
from tests.unit.engines.test_third_engine import SPEC

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_a_third_engine_is_rehearsed(toy_engine: None, catalog: Catalog, tmp_path: Path) -> None:
    spec = loads(SPEC, "run.yaml")
    request = RehearsalRequest(
        spec, plan_run(resolve_basis(spec, catalog)).plan, catalog, tmp_path, seed=3
    )
    found = make_twins(request)
    kept = tmp_path / "kept"

    def keep(drill: DrillName, doing: str, step: int) -> None:
        saved = tmp_path / "twin-1" / "straight"
        if drill is DrillName.RESHARD and not kept.exists():
            kept.symlink_to(saved)

    results = {}
    for result in run_drills(request, found, keep):
        results[result.drill] = result
        if result.drill is DrillName.RESHARD:
            _look_at(LocalPlace(kept))
    said = {drill: result.said for drill, result in results.items()}
    assert all(result.ok for result in results.values()), said
    assert "accepted by the engine for 16 ranks" in said[DrillName.ARGUMENTS]
    assert "bitwise identical" in said[DrillName.KILL]
    assert "saved with dp 2, resumed with dp 4" in said[DrillName.RESHARD]
    assert not results[DrillName.EXPORT].judged


def _look_at(place: LocalPlace) -> None:
    """List, verify, and notice damage, as `seatrial checkpoints` does."""
    there = list(checkpoints(place))
    assert sorted(one.directory for one in there) == ["toy-10", "toy-20"]
    assert all(one.record is not None and verify(place, one.directory) == [] for one in there)
    assert {one.record.setup.checkpoint_format for one in there if one.record} == {"toy"}
    shard = next(Path(place.address, there[0].directory).glob("*.distcp"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    (finding,) = verify(place, there[0].directory)
    assert finding.code == CheckpointCode.DIGEST
