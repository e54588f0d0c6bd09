# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics of a run whose batch size grows."""

import json
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.monitoring.anomalies.detector import Expectations
from seatrial.monitoring.anomalies.stalled import Stalled
from seatrial.monitoring.anomalies.throughput_drop import ThroughputDrop
from seatrial.monitoring.event_log import Event, EventKind, sanitize_event
from seatrial.monitoring.hang_timeouts import SAVE_FLOOR, STEP_FACTOR, USUAL_GROWTH, step_factor
from seatrial.monitoring.metrics import Metrics
from seatrial.monitoring.utilisation import MfuBasis
from seatrial.monitoring.view import RunView
from seatrial.runs.history.steps import logged_steps
from seatrial.worker.supervisor.heartbeats import RankPhase
from seatrial.worker.supervisor.timeouts import HeartbeatTimeouts

SEQUENCE, LAST = 1000, 40
START = Event(
    EventKind.START,
    0,
    100.0,
    {
        "world_size": 4,
        "sequence_length": SEQUENCE,
        "global_batch_size": LAST,
        "total_steps": 100,
        "total_samples": 2800,
    },
)


def events() -> list[Event]:
    """60 steps of 10 sequences, and then steps of 40 that take four times as long."""
    found, consumed, now = [START], 0, 100.0
    for step in range(1, 91):
        batch = 10 if step <= 60 else LAST
        consumed, now = consumed + batch, now + batch / 10
        values = {"seconds": batch / 10, "loss": 3.0, "grad_norm": 0.5, "learning_rate": 1e-4}
        values |= {"skipped": 0, "global_batch_size": batch, "consumed_samples": consumed}
        found.append(Event(EventKind.STEP, step, now, values))
    return found


def test_rates_are_those_of_the_current_batch_size() -> None:
    metrics = Metrics(MfuBasis(LAST * SEQUENCE, 4, model_flops=8e12, peak_flops=1e12))
    for event in events()[:61]:
        metrics.take(event)
    early = metrics.snapshot()
    assert (early.tokens_per_step, early.tokens_per_second) == (10_000, 10_000)
    assert early.mfu == pytest.approx(8e12 / 4 / 4 / 1e12)
    assert metrics.tokens_per_step == 10_000
    for event in events()[61:63]:
        metrics.take(event)
    late = metrics.snapshot()
    assert (late.step_seconds, late.tokens_per_second) == (4.0, 10_000)
    assert metrics.tokens_per_step is None


def test_the_time_left_counts_the_samples_that_are_left() -> None:
    view = RunView()
    for event in events()[:31]:
        view.take(event)
    ahead = view.outlook()
    assert ahead is not None
    # 2,500 samples at 10 a second; as steps of the current length, it would be 70 s.
    assert ahead.likely == pytest.approx(250.0)


def test_longer_steps_of_a_larger_batch_are_no_drop_in_throughput() -> None:
    detector = ThroughputDrop()
    assert not any(detector.observe(event) for event in events())
    same = ThroughputDrop()
    for event in events()[1:]:
        event.values.pop("global_batch_size")
        seen = same.observe(event)
    assert seen


def test_before_the_batch_grows_the_engine_may_be_saving() -> None:
    detector = Stalled(Expectations(save_every_steps=1000, evaluate_every_steps=1000))
    for event in events()[:61]:
        detector.observe(event)
    assert detector.patience() == SAVE_FLOOR
    for event in events()[61:]:
        detector.observe(event)
    assert detector.patience() < SAVE_FLOOR


def test_a_step_of_the_next_batch_size_does_not_count_as_hung() -> None:
    assert step_factor(1) == step_factor(USUAL_GROWTH) == STEP_FACTOR
    for growth in (2, 4, 4.1, 16, 64):
        assert step_factor(growth) > 1.2 * growth
    timeouts = HeartbeatTimeouts(16)
    for _ in range(30):
        timeouts.learn_step(10.0)
    assert timeouts.limit(RankPhase.STEPS) == 200.0


def test_the_log_keeps_the_samples() -> None:
    event = events()[1]
    assert sanitize_event(event) == event
    wrong = Event(EventKind.STEP, 1, 1.0, {"consumed_samples": -3, "seconds": 1.0})
    kept = sanitize_event(wrong)
    assert kept is not None
    assert kept.values == {"seconds": 1.0}


def written(log: Path, found: list[Event]) -> Path:
    lines = [{"kind": str(e.kind), "step": e.step, "time": e.time} | e.values for e in found]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


def test_a_calibration_uses_steps_of_the_last_batch_size(tmp_path: Path) -> None:
    (start,) = logged_steps(written(tmp_path / "events.jsonl", events()))
    assert start.seconds == [4.0] * 30
    with pytest.raises(UsageError):
        logged_steps(written(tmp_path / "early.jsonl", events()[:50]))
