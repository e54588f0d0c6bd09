# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Silence, restarts, what an event holds, and that memory does not grow."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import FABRIC_TRANSPORTS, Expectations
from seatrial.monitoring.anomalies.monitor import RULES, AnomalyMonitor, detectors
from seatrial.monitoring.event_log import Event, EventKind, decoded, encoded
from seatrial.monitoring.rank_times import lags
from tests.unit.monitoring.anomalies.made_up import began, notices, run

NO_PAUSES = Expectations(save_every_steps=0, evaluate_every_steps=0)


def followed(steps: int, expected: Expectations | None = None) -> tuple[AnomalyMonitor, float]:
    """A monitor after so many steps, and the time of the last."""
    keeper, last = AnomalyMonitor(expected or NO_PAUSES), 0.0
    for event in run(steps):
        assert keeper.observe(event) == ()
        last = event.time
    return keeper, last


def test_silence_is_told_once_and_ends_with_the_next_step() -> None:
    keeper, last = followed(100)
    assert keeper.pass_time(last + 9.9) == ()
    (notice,) = keeper.pass_time(last + 10.1, (3,))
    assert notice.finding.code == AnomalyCode.STALLED
    assert notice.finding.rule.endswith("since step 100; rank 3 does not respond.")
    assert keeper.pass_time(last + 100) == ()
    (over,) = keeper.observe(Event(EventKind.STEP, 101, last + 101, {"seconds": 101.0}))
    assert over.finding.severity is Severity.NOTE


def test_a_save_that_is_due_may_take_its_time() -> None:
    keeper, last = followed(100, replace(NO_PAUSES, save_every_steps=50, save_seconds=200.0))
    assert keeper.pass_time(last + 1999) == ()
    assert keeper.pass_time(last + 2001) != ()


def test_a_plan_of_a_short_save_makes_nobody_impatient_with_the_first() -> None:
    keeper, last = followed(100, replace(NO_PAUSES, save_every_steps=50, save_seconds=0.5))
    assert keeper.pass_time(last + 599) == ()
    assert keeper.pass_time(last + 601) != ()


def test_the_first_save_may_take_as_long_as_nccl_waits() -> None:
    keeper, last = followed(100, replace(NO_PAUSES, save_every_steps=50))
    assert keeper.pass_time(last + 599) == ()


def test_when_saves_are_due_is_learnt_from_the_log() -> None:
    keeper, last = followed(100, replace(NO_PAUSES, save_every_steps=None))
    assert keeper.pass_time(last + 119) == ()
    for step in (100, 200):
        keeper.observe(Event(EventKind.SAVE, step, last + step, {"seconds": 5.0}))
    keeper.observe(Event(EventKind.STEP, 300, last + 300, {"seconds": 1.0}))
    assert keeper.pass_time(last + 300 + 49) == ()
    assert keeper.pass_time(last + 300 + 51) != ()


def test_what_comes_after_the_last_step_may_take_its_time() -> None:
    keeper = AnomalyMonitor(NO_PAUSES)
    keeper.observe(Event(EventKind.START, 0, 0.0, {"total_steps": 2}))
    for step in (1, 2):
        keeper.observe(Event(EventKind.STEP, step, float(step), {"seconds": 1.0}))
    assert keeper.pass_time(500.0) == ()
    assert keeper.pass_time(700.0) != ()


def test_a_run_that_has_ended_is_not_stalled() -> None:
    keeper, last = followed(100)
    keeper.observe(Event(EventKind.EXIT, 100, last, {"code": 0}))
    assert keeper.pass_time(last + 1e6) == ()


def test_a_start_ends_what_was_open_and_forgets_what_was_usual() -> None:
    keeper, last = followed(100)
    keeper.pass_time(last + 50)
    (over,) = keeper.observe(Event(EventKind.START, 90, last + 60, {}))
    assert over.finding.rule.endswith("the processes restarted.")
    slower = (Event(e.kind, e.step, e.time, e.values | {"seconds": 3.0}) for e in run(60))
    assert [n for event in slower for n in keeper.observe(event)] == []


def test_a_notice_survives_the_event_log() -> None:
    def broken(step: int, told: dict[str, Any]) -> None:
        told["loss"] = float("inf") if step == 70 else told["loss"]

    first = notices(run(80, broken))[0]
    read = decoded(encoded(first.event(5.0)))
    assert read is not None
    assert read.kind is EventKind.FINDING
    assert read.values["code"] == "ST-WATCH-001"
    assert read.values["phase"] == "began"
    assert read.values["fix"] == first.finding.fix
    assert AnomalyMonitor().observe(read) == ()


@pytest.mark.parametrize("values", [{}, {"seconds": "x", "loss": None, "lag": 3, "data": []}])
@pytest.mark.parametrize("kind", list(EventKind))
def test_events_that_tell_nothing_do_no_harm(kind: EventKind, values: dict[str, Any]) -> None:
    keeper = AnomalyMonitor()
    for step in range(100):
        assert keeper.observe(Event(kind, step, float(step), values)) == ()


def test_memory_does_not_grow_with_the_steps() -> None:
    def size(keeper: AnomalyMonitor) -> int:
        seen: set[int] = set()

        def of(thing: object) -> int:
            if id(thing) in seen or isinstance(thing, type):
                return 0
            seen.add(id(thing))
            inner = list(getattr(thing, "__dict__", {}).values())
            inner += [
                getattr(thing, s) for s in getattr(thing, "__slots__", ()) if hasattr(thing, s)
            ]
            if isinstance(thing, dict):
                inner += [*thing.keys(), *thing.values()]
            elif hasattr(thing, "__iter__") and not isinstance(thing, (str, bytes)):
                inner += list(thing)
            return sys.getsizeof(thing) + sum(map(of, inner))

        return of(keeper)

    short, long = AnomalyMonitor(), AnomalyMonitor()
    for keeper, steps in ((short, 1000), (long, 5000)):
        for event in run(steps):
            keeper.observe(event)
    assert size(long) < 1.02 * size(short)


def test_every_code_has_a_rule_and_a_detector() -> None:
    assert [rule.code for rule in RULES] == list(AnomalyCode)
    assert [detector.rule for detector in detectors(Expectations())] == list(RULES)


def test_the_first_stage_of_a_pipeline_is_not_compared_with_the_last() -> None:
    assert lags([3.0, 3.3, 2.0, 2.0], [0, 0, 1, 1]) == pytest.approx([-1 / 11, 0.1, 0, 0])


def test_a_rank_is_compared_with_the_median_of_the_others() -> None:
    assert lags([1.0, 1.3], [0, 0])[1] == pytest.approx(0.3)
    assert lags([1.3, 1.0, 1.1, 0.9], [0] * 4) == pytest.approx([0.3, -1 / 11, 0.1, -2 / 11])


def test_the_transports_are_of_fabrics_that_exist() -> None:
    assert set(FABRIC_TRANSPORTS) <= set(Catalog().names(Kind.FABRICS))


def test_a_slow_run_is_told_once_not_each_step() -> None:
    def worse(step: int, told: dict[str, Any]) -> None:
        told["seconds"] *= 2 if step > 200 else 1

    assert len(began(notices(run(2000, worse)))) == 1
