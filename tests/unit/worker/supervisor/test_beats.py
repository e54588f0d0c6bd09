# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Heartbeats are written over in place, and read whole or not at all."""

import os
from pathlib import Path

import pytest

from seatrial.worker.supervisor import beats
from seatrial.worker.supervisor.beats import BeatWriter, Phase, beat_file, decoded, read_beats


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(beats, "time", made)
    return made


def test_a_beat_tells_phase_step_and_how_long_a_step_took(tmp_path: Path, clock: Clock) -> None:
    heart = BeatWriter(beat_file(tmp_path, 1), rank=9, restart=2)
    (first,) = read_beats(tmp_path)
    assert (first.process, first.rank, first.restart) == (os.getpid(), 9, 2)
    assert (first.phase, first.resumed) == (Phase.STARTING, -1)
    clock.now = 130.0
    heart.begin(40)
    clock.now = 150.0
    heart.step(41)
    (warm,) = read_beats(tmp_path)
    assert (warm.phase, warm.step, warm.resumed, warm.seconds) == (Phase.STEPS, 41, 40, 0.0)
    clock.now = 152.0
    with heart.pause(Phase.SAVING):
        assert read_beats(tmp_path)[0].phase is Phase.SAVING
        clock.now = 192.0
        with heart.pause(Phase.SAVING):
            clock.now = 193.0
    assert read_beats(tmp_path)[0].phase is Phase.STEPS
    clock.now = 194.5
    heart.step(42)
    (beat,) = read_beats(tmp_path)
    # 150 to 194.5, without the save of 41 s.
    assert beat.seconds == pytest.approx(3.5)
    assert (beat.step, beat.since) == (42, 194.5)


def test_a_run_that_ends_inside_of_a_save_stays_at_its_end(tmp_path: Path) -> None:
    heart = BeatWriter(beat_file(tmp_path, 0), rank=0)
    with heart.pause(Phase.SAVING):
        heart.end()
    assert read_beats(tmp_path)[0].phase is Phase.ENDING


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
