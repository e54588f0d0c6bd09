# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Heartbeats are written over in place, and read whole or not at all."""

import os
import time
from pathlib import Path

import pytest

from seatrial.worker.supervisor import crash_report, heartbeats
from seatrial.worker.supervisor.heartbeats import (
    Beat,
    BeatWriter,
    RankPhase,
    beat_file,
    decoded,
    read_beats,
)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(heartbeats, "time", made)
    return made


def test_a_beat_tells_phase_step_and_how_long_a_step_took(tmp_path: Path, clock: Clock) -> None:
    heart = BeatWriter(beat_file(tmp_path, 1), rank=9, restart=2)
    (first,) = read_beats(tmp_path)
    assert (first.process, first.rank, first.restart) == (os.getpid(), 9, 2)
    assert (first.phase, first.resumed) == (RankPhase.STARTING, -1)
    clock.now = 130.0
    heart.begin(40)
    clock.now = 150.0
    heart.step(41)
    (warm,) = read_beats(tmp_path)
    assert (warm.phase, warm.step, warm.resumed, warm.seconds) == (RankPhase.STEPS, 41, 40, 0.0)
    clock.now = 152.0
    with heart.pause(RankPhase.SAVING):
        assert read_beats(tmp_path)[0].phase is RankPhase.SAVING
        clock.now = 192.0
        with heart.pause(RankPhase.SAVING):
            clock.now = 193.0
    assert read_beats(tmp_path)[0].phase is RankPhase.STEPS
    clock.now = 194.5
    heart.step(42)
    (beat,) = read_beats(tmp_path)
    # 150 to 194.5, without the save of 41 s.
    assert beat.seconds == pytest.approx(3.5)
    assert (beat.step, beat.since) == (42, 194.5)


def test_a_run_that_ends_inside_of_a_save_stays_at_its_end(tmp_path: Path) -> None:
    heart = BeatWriter(beat_file(tmp_path, 0), rank=0)
    with heart.pause(RankPhase.SAVING):
        heart.end()
    assert read_beats(tmp_path)[0].phase is RankPhase.ENDING


def test_half_a_line_is_no_beat(tmp_path: Path) -> None:
    BeatWriter(beat_file(tmp_path, 0), rank=0)
    whole = beat_file(tmp_path, 0).read_text()
    assert decoded(whole) is not None
    assert decoded(whole[:20]) is None
    assert decoded("x " * 8) is None
    beat_file(tmp_path, 1).write_bytes(b"\xff\xfe")
    assert [beat.rank for beat in read_beats(tmp_path)] == [0]


def test_without_a_place_nothing_is_written_and_nothing_fails(tmp_path: Path) -> None:
    for path in (None, tmp_path / "file" / "rank-0"):
        (tmp_path / "file").touch()
        heart = BeatWriter(path, rank=0)
        heart.begin(0)
        heart.step(1)
        heart.end()
    assert read_beats(tmp_path) == []


def test_a_crash_report_is_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{crash_report.FLIGHTS}0").write_bytes(b"dump")
    monkeypatch.delenv(crash_report.DUMP_FILE, raising=False)
    monkeypatch.setattr(crash_report, "stack_of", lambda *_: "password=hunter2")
    beat = Beat(os.getpid(), 0, 0, RankPhase.STARTING, 0, -1, time.monotonic() - 60, 0.0)
    where = tmp_path / "last-words" / "1"
    told = crash_report.collect(where, [beat], tmp_path, time.monotonic())
    assert (told.stacks, told.flights) == (1, 1)
    modes = {path.name: path.stat().st_mode & 0o777 for path in where.iterdir()}
    names = ("processes.txt", "stack-rank-0.txt", f"{crash_report.FLIGHTS}0")
    assert modes == dict.fromkeys(names, 0o600)
    assert where.stat().st_mode & 0o777 == 0o700
    assert "hunter2" not in (where / "stack-rank-0.txt").read_text()
