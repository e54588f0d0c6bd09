# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Who is too silent, and who only saves."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.worker.supervisor.heartbeats import Beat, RankPhase
from seatrial.worker.supervisor.reports import Reports
from seatrial.worker.supervisor.restart_budget import RestartsInARow
from seatrial.worker.supervisor.timeouts import (
    EARLY_STEPS,
    HeartbeatTimeouts,
    HeartbeatWatch,
    Silence,
)

BEAT = Beat(10, 0, 0, RankPhase.STEPS, 0, 0, 0.0, 0.0)


def learned(seconds: float, steps: int = 100) -> HeartbeatWatch:
    """A watch that has seen steps of that length; the last at time 0."""
    watch = HeartbeatWatch()
    for number in range(steps + 1):
        since = (number - steps) * seconds
        beat = replace(BEAT, step=number, since=since, seconds=seconds if number else 0.0)
        assert watch.look([beat], {10}, since) is None
    return watch


def silence(watch: HeartbeatWatch, now: float, *beats: Beat) -> Silence | None:
    return watch.look(beats, {beat.process for beat in beats}, now)


@pytest.mark.parametrize(("step", "limit"), [(0.01, 10.0), (1.9, 10.0), (4.0, 20.0), (40.0, 200.0)])
def test_silence_is_noticed_within_max_of_10_s_and_5_steps(step: float, limit: float) -> None:
    watch = learned(step)
    last = replace(BEAT, step=100)
    assert silence(watch, limit - 1, last) is None
    found = silence(watch, limit, last)
    assert found is not None
    assert found.limit == pytest.approx(limit)


def test_before_steps_are_known_patience_is_longer() -> None:
    watch = learned(0.1, EARLY_STEPS - 5)
    last = replace(BEAT, step=EARLY_STEPS - 5)
    assert silence(watch, 59, last) is None
    assert silence(watch, 60, last) is not None


def test_the_usual_is_the_99th_percentile_of_recent_steps() -> None:
    patience = HeartbeatTimeouts()
    for number in range(1, 101):
        patience.learn_step(float(number))
    assert patience.usual_step == 99.0
    for _ in range(1000):
        patience.learn_step(1.0)
    # Steps of long ago do not count.
    assert patience.usual_step == 1.0


@pytest.mark.parametrize("phase", [RankPhase.SAVING, RankPhase.EVALUATING, RankPhase.ENDING])
def test_a_save_ten_times_as_long_as_any_before_is_no_silence(phase: RankPhase) -> None:
    watch = learned(1.0)
    at = 0.0
    for _ in range(3):
        watch.look([replace(BEAT, phase=phase, step=100, since=at)], {10}, at)
        at += 90.0
        watch.look([replace(BEAT, step=100, since=at)], {10}, at)
    begun = replace(BEAT, phase=phase, step=100, since=at)
    assert silence(watch, at + 900, begun) is None
    assert silence(watch, at + 1800, begun) is not None


def test_ranks_that_wait_for_one_that_saves_are_not_late() -> None:
    watch = learned(1.0)
    waiting = replace(BEAT, step=100)
    saving = replace(BEAT, process=11, rank=1, phase=RankPhase.SAVING, step=100)
    assert silence(watch, 60, waiting, saving) is None
    # But not for ever.
    assert silence(watch, 700, waiting, saving) is not None


@pytest.mark.parametrize("phase", [RankPhase.STARTING, RankPhase.FIRST])
def test_a_start_may_take_half_an_hour(phase: RankPhase) -> None:
    watch = learned(1.0)
    assert silence(watch, 1700, replace(BEAT, process=12, phase=phase)) is None
    assert silence(watch, 1800, replace(BEAT, process=12, phase=phase)) is not None


def test_one_rank_that_is_late_is_named() -> None:
    watch = learned(1.0)
    early = replace(BEAT, step=100, since=9.0)
    late = replace(BEAT, process=11, rank=1, step=100, since=0.0)
    found = silence(watch, 10, early, late)
    assert found is not None
    assert [beat.rank for beat in found.beats] == [1]


def test_what_the_dead_last_told_is_not_held_against_them() -> None:
    assert learned(1.0).look([replace(BEAT, step=100)], set(), 1000) is None


def test_a_new_process_is_not_compared_with_the_one_before() -> None:
    watch = learned(1.0)
    before = watch.patience.usual_step
    again = replace(BEAT, process=20, step=200, since=1.0, seconds=500.0)
    watch.look([again], {20}, 1.0)
    assert watch.patience.usual_step == before


@given(st.lists(st.floats(0.001, 1e4), min_size=EARLY_STEPS, max_size=200))
def test_the_limit_is_never_below_what_steps_took(steps: list[float]) -> None:
    patience = HeartbeatTimeouts()
    for seconds in steps:
        patience.learn_step(seconds)
    limit = patience.limit(RankPhase.STEPS)
    assert limit >= 10.0
    assert limit >= sorted(steps)[int(0.99 * len(steps)) - 1]


def test_restarts_without_progress_are_counted_in_a_row() -> None:
    budget = RestartsInARow(2)
    budget.began(0)
    assert budget.spend()
    budget.began(0)
    assert budget.spend()
    budget.began(50)
    assert budget.spent == 0
    # Back at an older checkpoint is no progress.
    for allowed in (True, True, False):
        assert budget.spend() is allowed
        budget.began(40)


def test_a_run_that_never_begins_ends_after_its_restarts() -> None:
    budget = RestartsInARow(1)
    assert budget.spend()
    budget.began(0)
    assert not budget.spend()


def test_a_silence_is_told_of_as_longer_than_what_is_usual(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = silence(learned(1.0), 9.3, replace(BEAT, step=100))
    assert found is not None
    Reports(None, 0).silent(found, [], tmp_path)
    told = re.search(r"heartbeat .* for ([\d.]+) s .*timeout ([\d.]+) s", capsys.readouterr().err)
    assert told is not None
    assert float(told[1]) > float(told[2])
