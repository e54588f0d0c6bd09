# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What version 0.1.0 wrote before its modules were moved is still read: plan, ledger, records."""

import shutil
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.inventory import State, checkpoints
from seatrial.checkpoints.verification import verify
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.planning.resolve import resolve_basis
from seatrial.runs.kept_plan import find
from seatrial.runs.ledger.host import local_run
from seatrial.runs.ledger.ledger import AttemptOutcome
from seatrial.spec.loader import load
from seatrial.storage.location import place_at

WRITTEN = Path(__file__).parents[2] / "data/written-by-0.1.0"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory of a run, as it was left."""
    shutil.copytree(WRITTEN, tmp_path, dirs_exist_ok=True)
    (tmp_path / ".seatrial").mkdir()
    (tmp_path / "state").rename(tmp_path / ".seatrial/kept")
    return tmp_path


def test_a_kept_plan_still_holds(home: Path, catalog: Catalog) -> None:
    found = find(resolve_basis(load(home / "run.yaml"), catalog), home / "run.yaml")
    assert found.choices
    assert "parallelism.tp_size" in found.choices
    assert found.findings == ()
    assert "damaged" not in found.news
    assert found.calibration is not None
    assert found.calibration.steps == 4


def test_a_ledger_is_still_read(home: Path) -> None:
    ledger = local_run(home, "kept").read()
    assert ledger.damage == ()
    first, second = ledger.attempts
    assert (first.outcome, first.reason) == (AttemptOutcome.FAILED, "a rank died")
    assert (first.excluded_nodes, first.faulty_nodes) == (("node-3",), ("node-4",))
    assert (second.number, second.outcome) == (2, None)


def test_an_event_log_is_still_read(home: Path) -> None:
    events = list(read_events(home / "events.jsonl"))
    assert [event.kind for event in events].count(EventKind.STEP) == 5
    assert events[0].values["world_size"] == 8
    assert events[-1].kind is EventKind.EXIT


def test_a_checkpoint_still_counts_and_is_whole(home: Path) -> None:
    place = place_at(str(home / "checkpoints"))
    (one,) = checkpoints(place)
    assert (one.step, one.state) == (5, State.COMMITTED)
    assert one.record is not None
    assert one.record.setup.versions.seatrial == "0.1.0"
    assert verify(place, one.directory) == []
