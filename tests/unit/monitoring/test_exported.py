# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics of a run are what its events say, however often it starts again."""

import math
import re

import pytest

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.prometheus import EXPORTED, Form, RunNumbers

TOLD = {
    "world_size": 8,
    "global_batch_size": 64,
    "sequence_length": 2048,
    "total_steps": 100,
    "save_every_steps": 10,
}
FOUND = {"code": "ST-RUN-031", "severity": "error"}


def step(number: int, time: float, **values: object) -> Event:
    told: dict[str, object] = {
        "seconds": 2.0,
        "loss": 3.0,
        "grad_norm": 0.5,
        "learning_rate": 1e-4,
        "skipped": False,
    }
    told["parts"] = {"data": 0.25, "compute": 1.75}
    return Event(EventKind.STEP, number, time, told | values)


def history() -> list[Event]:
    """A run that saves after step 2, is killed after step 3, and does that step again."""
    return [
        Event(EventKind.START, 0, 100.0, TOLD | {"began": 90.0}),
        step(1, 102.0),
        step(2, 104.0, skipped=True, grad_norm=math.inf),
        Event(EventKind.SAVE, 2, 105.0, {"seconds": 1.0}),
        step(3, 107.0),
        Event(EventKind.START, 2, 130.0, TOLD | {"began": 120.0}),
        step(3, 132.0),
        step(4, 134.0, loss=math.nan),
        Event(EventKind.EVALUATION, 4, 137.0, {"seconds": 3.0, "loss": 2.9, "split": "validation"}),
        Event(EventKind.FINDING, 4, 137.5, FOUND | {"phase": "began"}),
        Event(EventKind.FINDING, 4, 137.8, FOUND | {"phase": "ended"}),
        Event(EventKind.EXIT, 4, 138.0, {"code": 1, "error": "RuntimeError"}),
    ]


def values(events: list[Event]) -> dict[str, float]:
    """Metrics as Prometheus writes them, by their text."""
    numbers = RunNumbers()
    for event in events:
        numbers.take(event)
    return {
        f"{name}{list(labels) if labels else ''}": value
        for name, by in numbers.samples().items()
        for labels, value in by.items()
    }


def test_values_are_those_of_the_events() -> None:
    now = values(history())
    assert now["seatrial_training_step"] == 4
    assert now["seatrial_training_target_step"] == 100
    assert now["seatrial_training_steps_total"] == 5
    assert now["seatrial_training_replayed_steps_total"] == 1
    assert now["seatrial_training_skipped_steps_total"] == 1
    assert now["seatrial_training_nonfinite_steps_total"] == 1
    assert now["seatrial_training_tokens_total"] == 5 * 64 * 2048
    assert math.isnan(now["seatrial_training_loss"])
    assert now["seatrial_step_part_seconds_total['data']"] == pytest.approx(1.25)
    assert now["seatrial_starts_total"] == 2
    assert now["seatrial_failures_total"] == 1
    assert now["seatrial_checkpoint_saves_total"] == 1
    assert now["seatrial_checkpoint_step"] == 2
    assert now["seatrial_checkpoint_interval_steps"] == 10
    assert now["seatrial_checkpoint_timestamp_seconds"] == 105.0
    assert now["seatrial_evaluation_loss['validation']"] == 2.9
    assert now["seatrial_findings_total['ST-RUN-031', 'error']"] == 1
    assert now["seatrial_finding_timestamp_seconds['ST-RUN-031', 'error']"] == 137.5
    assert now["seatrial_last_event_timestamp_seconds"] == 138.0


def test_the_buckets_of_time_add_up_to_wall_time() -> None:
    now = values(history())
    buckets = {k: v for k, v in now.items() if k.startswith("seatrial_run_seconds_total")}
    assert len(buckets) == 7
    assert sum(buckets.values()) == pytest.approx(138.0 - 90.0)
    assert buckets["seatrial_run_seconds_total['saving']"] == pytest.approx(1.0)


def test_counters_never_fall_while_events_come() -> None:
    counters = {metric.name for metric in EXPORTED if metric.form is Form.COUNTER}
    before: dict[str, float] = {}
    events = history()
    for count in range(len(events) + 1):
        now = values(events[:count])
        fallen = {k for k, v in before.items() if k.split("[")[0] in counters and now[k] < v}
        assert fallen == set()
        before = now


def test_counters_are_there_from_the_beginning() -> None:
    now = values([])
    plain = [m.name for m in EXPORTED if m.form is Form.COUNTER and not m.label]
    assert len(plain) > 5
    assert {name: now[name] for name in plain} == dict.fromkeys(plain, 0.0)


def test_a_value_that_is_not_known_is_not_there() -> None:
    now = values([Event(EventKind.START, 0, 100.0, {})])
    assert not {"seatrial_ranks", "seatrial_training_loss", "seatrial_checkpoint_step"} & set(now)


@pytest.mark.parametrize("junk", [{"seconds": "x"}, {"parts": 3}, {"loss": None}, {"steps": None}])
def test_an_odd_event_does_no_harm(junk: dict[str, object]) -> None:
    now = values([Event(EventKind.START, 0, 1.0, TOLD), step(1, 2.0, **junk)])
    assert now["seatrial_training_steps_total"] == 1


def test_names_follow_the_conventions_of_prometheus() -> None:
    names = [metric.name for metric in EXPORTED]
    assert len(set(names)) == len(names)
    for metric in EXPORTED:
        assert re.fullmatch(r"seatrial_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.name.endswith("_total") == (metric.form is Form.COUNTER), metric.name
        assert "step" not in metric.label
        assert metric.about.endswith(".")
        if "Seconds" in metric.about:
            assert "_seconds" in metric.name
