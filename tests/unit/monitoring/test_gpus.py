# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Readings of GPUs are summarised in an event, and shown, exported and watched from there."""

import json
import math
from typing import Any

import pytest
from rich.text import Text

from seatrial.codes.anomalies import AnomalyCode
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.monitoring.event_log import Event, EventKind, decoded, encoded, sanitize_event
from seatrial.monitoring.gpus import SENT, GpuState, gpu_state, gpu_words, summarise_gpus
from seatrial.monitoring.prometheus import RunNumbers
from seatrial.monitoring.view import RunView
from seatrial.reports.live.panels import ranks, status_line

NAN = math.nan


def reading(**values: float) -> list[float]:
    usual = {
        "utilisation": 0.97,
        "memory": 60e9,
        "power": 650.0,
        "clock": 1755.0,
        "temperature": 64.0,
        "throttle": 0.0,
        "ecc_errors": 0.0,
        "xid": NAN,
    }
    return [(usual | values)[name] for name in SENT]


def event(*readings: list[float], step: int = 10) -> Event:
    """An event as it is read from a log."""
    made = Event(EventKind.GPUS, step, 1000.0 + step, summarise_gpus(readings).to_values())
    read = decoded(encoded(made))
    assert read is not None
    checked = sanitize_event(read)
    assert checked is not None
    return checked


def state(*readings: list[float]) -> GpuState:
    found = gpu_state(event(*readings))
    assert found is not None
    return found


def test_a_summary_survives_the_log() -> None:
    found = state(reading(), reading(clock=1200, throttle=0x44), reading(ecc_errors=2, xid=79))
    assert found.figures["clock"].least == 1200
    assert found.figures["power"].median == 650
    assert found.throttled == {1: 0x44}
    assert found.throttled_ranks == 1
    assert found.ecc_errors == {2: 2}
    assert found.xids == {2: 79}
    assert gpu_words(found) == (
        "97 % · 650 W · 1755 MHz · 64 °C · 1 throttled (power cap, hardware thermal slowdown) · "
        "2 ECC errors · Xid 79"
    )


def test_an_event_stays_small_with_many_ranks() -> None:
    many = event(*[reading(throttle=0x08, ecc_errors=1, xid=31)] * 10_000)
    assert len(encoded(many)) < 4096
    found = gpu_state(many)
    assert found is not None
    assert found.throttled_ranks == 10_000
    assert len(found.xids) == 16


def test_what_no_gpu_reports_is_left_out() -> None:
    found = state([NAN] * len(SENT), reading(power=NAN))
    assert "power" not in found.figures
    assert found.figures["utilisation"].median == 0.97
    assert state([NAN] * len(SENT)).figures == {}


@pytest.mark.parametrize(
    "values",
    [{}, {"power": 3}, {"throttled": [[1]]}, {"xids": "x"}, {"throttled_ranks": "many"}],
)
def test_a_damaged_event_is_read_as_far_as_it_can_be(values: dict[str, Any]) -> None:
    damaged = sanitize_event(Event(EventKind.GPUS, 1, 1.0, values))
    assert damaged is not None
    found = gpu_state(damaged)
    assert found is not None
    assert found.figures == {}
    json.dumps(found.to_values())


def test_an_xid_is_reported_at_once_and_new_ecc_errors_too() -> None:
    monitor = AnomalyMonitor()
    # Errors from before the run are no news.
    assert monitor.observe(event(reading(ecc_errors=5), reading())) == ()
    (ecc,) = monitor.observe(event(reading(ecc_errors=7), reading(), step=20))
    assert ecc.finding.code == AnomalyCode.GPU_ERROR
    assert ecc.finding.rule == "The GPU of rank 0 has 2 new uncorrectable ECC errors."
    noticed = monitor.observe(event(reading(ecc_errors=7), reading(xid=79), step=30))
    assert "The GPU of rank 1 reports Xid 79." in [each.finding.rule for each in noticed]


def test_only_lasting_slowdowns_of_the_hardware_are_reported() -> None:
    monitor, capped = AnomalyMonitor(), reading(throttle=0x04)
    hot = reading(throttle=0x40)
    for step in (10, 20, 30, 40):
        assert monitor.observe(event(capped, reading(), step=step)) == ()
    assert monitor.observe(event(hot, reading(), step=50)) == ()
    assert monitor.observe(event(hot, reading(), step=60)) == ()
    (found,) = monitor.observe(event(hot, reading(), step=70))
    assert found.finding.code == AnomalyCode.GPU_THROTTLED
    assert found.since == 50
    assert found.about == "rank 0"


def test_watch_shows_the_gpus() -> None:
    view = RunView()
    assert "GPUs" not in status_line(view)
    view.take(event(reading(), reading(clock=1200)))
    assert "GPUs 97 % · 650 W" in status_line(view)
    drawn = ranks(view, 80, 6)
    assert isinstance(drawn, Text)
    assert "GPUs 97 % · 650 W" in drawn.plain
    busy = {"least": 1.0, "median": 1.0, "most": 1.2, "highest": [[3, 1.2]]}
    view.take(Event(EventKind.RANKS, 11, 1011.0, {"busy": busy}))
    drawn = ranks(view, 80, 6)
    assert "rank 3 is slowest" in drawn.plain
    assert drawn.plain.splitlines()[-1].startswith("GPUs 97 %")
    assert [point.mean for point in view.curves.gpu_clock.points] == [1200.0]


def test_prometheus_gets_the_gpus() -> None:
    numbers = RunNumbers()
    numbers.take(event(reading(), reading(clock=1200, throttle=0x40, ecc_errors=3, xid=79)))
    numbers.take(event(reading(), reading(xid=31), step=20))
    found = numbers.samples()
    assert found["seatrial_gpu_clock_megahertz"] == {
        ("min",): 1755.0,
        ("median",): 1755.0,
        ("max",): 1755.0,
    }
    assert found["seatrial_gpu_power_watts"][("median",)] == 650
    assert found["seatrial_gpu_ecc_errors"] == {(): 0.0}
    assert found["seatrial_gpu_xid_errors_total"] == {(): 2.0}
