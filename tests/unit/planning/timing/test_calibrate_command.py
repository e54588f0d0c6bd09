# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial calibrate`, called as the command line calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.cli.calibrate import app
from seatrial.errors import UsageError
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.runs.calibrate import logged_steps
from tests.unit.planning.search.asked import OPEN


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "open.yaml"
    file.write_text(OPEN)
    return file


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def predicted(spec: Path) -> float:
    return float(json.loads(run(spec, "--seconds", "30,30,30", "--json"))["predicted"])


def test_times_set_a_factor_that_is_kept_beside_the_spec(spec: Path) -> None:
    before = predicted(spec)
    said = run(spec, "--seconds", f"{1.2 * before},{1.2 * before},{1.21 * before}")
    assert "factor     1.200" in said
    assert "-16.7%" in said
    kept = json.loads((spec.parent / ".seatrial/open/calibration.json").read_text())
    assert kept["scale"] == pytest.approx(1.2)
    # A second calibration starts from the same prediction, not from the calibrated one.
    assert predicted(spec) == pytest.approx(before)


def test_an_event_log_gives_its_steps_start_by_start(spec: Path, tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.write(EventKind.START, 0)
    for step, seconds in enumerate((90.0, 40.0, 30.0, 30.2, 29.9, 55.0, 30.1), 1):
        log.write(EventKind.STEP, step, seconds=seconds, loss=2.0)
    log.write(EventKind.STEP, 8, seconds=3.0, skipped=True)
    assert logged_steps(tmp_path / "events.jsonl") == [[90.0, 40.0, 30.0, 30.2, 29.9, 55.0, 30.1]]
    found = json.loads(run(spec, "--events", tmp_path / "events.jsonl", "--json"))
    assert found["measured"] == pytest.approx(30.05)
    assert (found["steps"], found["warm_up"], found["outliers"]) == (4, 2, 1)


@pytest.mark.parametrize("times", ["", "12,x,13", "12,-1,13", "12,inf,13"])
def test_what_is_not_a_time_is_refused(spec: Path, times: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        run(spec, "--seconds", times)


def test_nothing_and_both_are_refused(spec: Path) -> None:
    with pytest.raises(UsageError, match="either --events"):
        run(spec)
    with pytest.raises(UsageError, match="either --events"):
        run(spec, "--seconds", "1,2,3", "--events", "x")


def test_a_log_without_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="no steps"):
        logged_steps(tmp_path / "empty.jsonl")
    with pytest.raises(UsageError, match="not a file"):
        logged_steps(tmp_path / "absent.jsonl")


@pytest.mark.parametrize("content", [b"\x80\x81\n\xff", b"[1]\n", b"1\n", b""])
def test_what_is_no_event_log_is_said(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(content)
    with pytest.raises(UsageError, match="Is it an event log"):
        logged_steps(log)


def test_a_place_that_cannot_hold_a_calibration_is_said(spec: Path) -> None:
    (spec.parent / ".seatrial").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        run(spec, "--seconds", "30,30,30")


def test_a_directory_in_place_of_a_calibration_is_said(spec: Path) -> None:
    (spec.parent / ".seatrial/open/calibration.json").mkdir(parents=True)
    with pytest.raises(UsageError, match="not a calibration that Seatrial wrote"):
        run(spec, "--seconds", "30,30,30")
