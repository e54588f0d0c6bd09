# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import math
from pathlib import Path

from seatrial.monitoring.event_log import EventKind, EventLog, read_events


def test_events_come_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    log = EventLog(path)
    log.write(EventKind.START, 0, world_size=8)
    log.write(EventKind.STEP, 1, loss=10.5, grad_norm=None)
    start, step = read_events(path)
    assert (start.kind, start.step, start.values) == (EventKind.START, 0, {"world_size": 8})
    assert step.values == {"loss": 10.5, "grad_norm": None}
    assert step.time >= start.time


def test_a_second_attempt_appends_and_half_a_line_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventLog(path).write(EventKind.STEP, 1)
    with path.open("a") as stream:
        stream.write('{"kind":"step","st')
    assert [event.step for event in read_events(path)] == [1]
    EventLog(path).write(EventKind.STEP, 2)
    assert [event.step for event in read_events(path)] == [1, 2]


def test_a_loss_that_is_no_number_is_json_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventLog(path).write(EventKind.STEP, 1, loss=float("nan"), grad_norm=float("inf"))
    assert "NaN" not in path.read_text()
    (event,) = read_events(path)
    assert math.isnan(event.values["loss"])
    assert event.values["grad_norm"] == math.inf
