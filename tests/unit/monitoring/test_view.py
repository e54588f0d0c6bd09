# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is shown of a run follows from its events, and does not grow with them."""

import math
import random
from typing import Any

import pytest

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.timeline import Stretch, Stretches
from seatrial.reports.live import panels
from tests.unit.monitoring.made_up_run import NOON, seen, started, steps, whole_run


def test_the_starts_tell_what_was_lost_and_why() -> None:
    view = seen(whole_run())
    first, second = view.restarts()
    assert (first.first_step, first.last_step, first.lost_steps) == (0, 18, 8)
    assert first.cause == "processes disappeared without an exit event"
    assert (second.first_step, second.last_step, second.cause) == (10, 40, "exited normally")
    assert view.goodput().restarts == 1
    assert view.goodput().replayed_steps == 8
    assert view.new_steps == 40


def test_an_end_that_the_ledger_knows_is_told_with_the_words_of_the_log() -> None:
    view = seen(whole_run())
    view.end(None, "stopped")
    assert view.restarts()[-1].cause == "stopped; exited normally"


def test_stretches_add_up_to_the_wall_time() -> None:
    view = seen(whole_run())
    spent = view.goodput()
    stretches = view.stretches.stretches
    assert sum(s.seconds for s in stretches) == pytest.approx(spent.wall)
    for bucket in Bucket:
        mine = sum(s.seconds for s in stretches if s.bucket is bucket)
        assert mine == pytest.approx(spent.seconds[bucket]), bucket
    assert stretches[0].begin == NOON - 20
    assert stretches[-1].end == NOON + 164


def test_many_stretches_are_joined_and_none_is_lost() -> None:
    kept = Stretches(most=16)
    for number in range(1000):
        bucket = Bucket.SAVING if number % 2 else Bucket.TRAINING
        begin = number * 10.0
        kept.take(Stretch(bucket, begin, begin + (1.0 if number % 2 else 10.0), 1))
    assert len(kept.stretches) <= 16
    assert kept.joined_below > 0
    assert (kept.stretches[0].begin, kept.stretches[-1].end) == (0.0, 9991.0)


def test_attempts_are_never_joined() -> None:
    kept = Stretches(most=16)
    kept.take(Stretch(Bucket.TRAINING, 0.0, 1.0, 1))
    kept.take(Stretch(Bucket.TRAINING, 1.0, 2.0, 2))
    assert [stretch.attempt for stretch in kept.stretches] == [1, 2]


def test_checkpoints_have_the_age_that_a_failure_would_have_cost() -> None:
    view = seen([started(0, NOON), *steps(1, 10, NOON)])
    assert view.unsaved() == 20
    view.take(Event(EventKind.SAVE, 10, NOON + 24, {"seconds": 4.0}))
    assert [point.mean for point in view.curves.checkpoint_age.points] == [20.0]
    assert [point.mean for point in view.curves.save_seconds.points] == [4.0]
    assert view.unsaved() == 0


def test_the_outlook_reaches_from_nothing_goes_wrong_to_as_so_far() -> None:
    view = seen([started(0, NOON), *steps(1, 20, NOON)])
    ahead = view.outlook()
    assert ahead is not None
    assert ahead.likely == pytest.approx(20 * 2.0)
    # 20 s waiting and starting, 40 s of steps, for 20 steps.
    assert ahead.latest == pytest.approx(20 * 60 / 20)
    assert ahead.soonest == pytest.approx(40.0)


def test_a_slow_rank_is_named_with_its_lag() -> None:
    lag = seen(whole_run()).lag()
    assert lag is not None
    assert lag.ranks == 16
    assert lag.slowest is not None
    assert lag.slowest[0] == 5
    assert lag.slowest[1] == pytest.approx(0.5)
    assert lag.others == 0.0
    cells, size = lag.cells(4)
    assert (size, [round(cell, 3) for cell in cells]) == (4, [0.0, 0.5, 0.0, 0.0])


def test_a_log_without_ranks_has_no_lag() -> None:
    assert seen([started(0, NOON)]).lag() is None


def test_a_long_run_takes_no_more_than_a_short_one() -> None:
    view = seen([started(0, NOON), *steps(1, 20_000, NOON)])
    for series in (view.curves.loss, view.curves.step_seconds, *view.curves.parts.values()):
        assert len(series.points) <= 1024
    assert len(view.stretches.stretches) <= 4
    assert len(view.events) <= 50


def test_what_the_log_of_our_worker_says_was_found_is_told_and_nothing_else() -> None:
    bad = Event(EventKind.STEP, 41, NOON + 200, {"seconds": 2.0, "loss": math.nan})
    view = seen([*whole_run(), bad])
    assert dict(view.found) == {"ST-X-001": 1}


def test_in_a_log_from_elsewhere_anomalies_are_looked_for() -> None:
    foreign = [Event(event.kind, event.step, event.time, {**event.values}) for event in whole_run()]
    for event in foreign:
        event.values.pop("began", None)
    bad = Event(EventKind.STEP, 41, NOON + 200, {"seconds": 2.0, "loss": math.nan})
    view = seen([*foreign[:-1], bad])
    assert sum(view.found.values()) >= 2
    assert any(event.step == 41 for event in view.findings)
    assert view.events[-1].kind is EventKind.FINDING


JUNK: tuple[Any, ...] = (
    *(None, "x", "", True, -1, 0, 1e308, math.inf, math.nan, 10**30, "nan"),
    *([], {}, [[1]], [1, 2], {"a": "b"}),
)
NAMES = (
    *("steps", "seconds", "loss", "began", "count", "split", "code", "rule", "memory", "skipped"),
    *("total_steps", "world_size", "parts", "timers", "error", "busy", "global_batch_size"),
)


def garbled(event: Event, draw: random.Random) -> Event:
    values = {k: draw.choice(JUNK) if draw.random() < 0.15 else v for k, v in event.values.items()}
    for name, value in values.items():
        if isinstance(value, dict) and value and draw.random() < 0.3:
            values[name] = {**value, draw.choice(list(value)): draw.choice(JUNK)}
    if draw.random() < 0.2:
        values[draw.choice(NAMES)] = draw.choice(JUNK)
    step = draw.choice((event.step, event.step, -5, 10**12, 10**11))
    return Event(event.kind, step, draw.choice((event.time, 0.0, 1e12)), values)


@pytest.mark.parametrize("seed", range(40))
def test_a_garbled_log_is_shown_as_far_as_it_can_be_believed(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  (no secret)
    events = [garbled(event, draw) for event in whole_run()]
    for event in events if seed % 2 else ():
        event.values.pop("began", None)
    view = seen(events)
    assert math.isfinite(view.goodput().wall)
    about = panels.Heading("a", "b", 1, live=True)
    assert panels.heading(view, about, 80, NOON).plain
    assert panels.status_line(view)
    for draw_panel in (
        *(panels.loss_curve, panels.rate_curve, panels.norm_curve),
        *(panels.ranks, panels.goodput, panels.events),
    ):
        assert draw_panel(view, 40, 6).plain
