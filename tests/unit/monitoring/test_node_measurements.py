# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements of nodes survive a log, and `status` shows them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from seatrial.cli.status import say_status
from seatrial.monitoring.event_log import Event, EventKind, decoded, encoded
from seatrial.monitoring.node_measurements import (
    MOST_ROWS,
    NodeMeasurement,
    measurements_of,
    read_measurement,
)
from seatrial.reports.run_phrases import event_words
from seatrial.runs.status.status import Status

HEALTHY = NodeMeasurement("node-0", matmul_tflops=651.234567, between_gb_s=91.5, driver="580.1")
SLOW = NodeMeasurement("node-1", between_gb_s=0.5, ecc_errors=0, xids=(79,), is_slow=True)


def shown(nodes: tuple[NodeMeasurement, ...], capsys: pytest.CaptureFixture[str]) -> list[str]:
    found = Status("slim-7b", "here", "running", 1, "", "", 2, 2, 0, (), (), nodes=nodes)
    say_status(found, datetime(2026, 1, 1, tzinfo=UTC))
    return capsys.readouterr().out.splitlines()


def test_status_shows_slow_nodes_first_and_no_empty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = shown((HEALTHY, SLOW), capsys)
    start = lines.index("  preflight measurements of 2 nodes:")
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["node", "matmul", "TFLOP/s", "between", "GB/s", "ECC", "driver"],
        ["node-1", "0.5", "0", "slow"],
        ["node-0", "651", "91.5", "580.1"],
    ]
    assert not [line for line in shown((), capsys) if "preflight" in line]


def test_a_table_of_many_nodes_has_the_slowest(capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(NodeMeasurement(f"n{i:03}", between_gb_s=100.0 - i) for i in range(64))
    lines = shown(many, capsys)
    start = lines.index("  preflight measurements of 64 nodes, the 16 slowest:")
    rows = lines[start + 2 : start + 2 + MOST_ROWS]
    assert rows[0].startswith("n063")
    assert rows[-1].startswith("n048")


def test_the_json_of_a_status_has_what_was_measured() -> None:
    found = Status("a", "b", "running", 1, "", "", 2, 2, 0, (), (), nodes=(HEALTHY, SLOW))
    assert found.to_dict()["nodes"] == [
        {"node": "node-0", "matmul_tflops": 651.2, "between_gb_s": 91.5, "driver": "580.1"},
        {"node": "node-1", "between_gb_s": 0.5, "ecc_errors": 0, "xids": [79], "is_slow": True},
    ]


def test_measurements_survive_the_event_log() -> None:
    values: dict[str, Any] = {"nodes": [HEALTHY.to_dict(), SLOW.to_dict(), 3], "slow": ["node-1"]}
    event = decoded(encoded(Event(EventKind.PREFLIGHT, 0, 1.0, values)))
    assert event is not None
    healthy, slow = measurements_of(event)
    assert healthy.node == "node-0"
    assert slow == SLOW
    assert event_words(event) == "preflight measured 3 nodes; slow: node-1"
    assert measurements_of(Event(EventKind.STEP, 1, 1.0, values)) == ()


@pytest.mark.parametrize(
    "value",
    [None, [], {}, {"node": 3}, {"node": "a", "between_gb_s": "fast"}, {"node": "a", "xids": 1}],
)
def test_a_damaged_measurement_is_none(value: object) -> None:
    assert read_measurement(value) is None
