# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A node's measurements are compared with floors, and errors of its devices are findings."""

from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.codes.preflight import PreflightCode
from seatrial.monitoring.node_measurements import NodeMeasurement
from seatrial.planning.node_floors import NodeFloors
from seatrial.worker.node import measure
from seatrial.worker.node.measure import (
    measure_host,
    measure_volume,
    measurement_findings,
    version_findings,
)

GOOD = NodeMeasurement(
    "ip-1",
    matmul_tflops=650.0,
    memory_gb_s=2900.0,
    memory_errors=0,
    within_gb_s=300.0,
    between_gb_s=250.0,
    write_gb_s=1.0,
    ecc_errors=0,
)
FLOORS = NodeFloors(395.0, 1675.0, 135.0, 120.0, 0.1)


def test_a_good_node_has_no_findings() -> None:
    assert measurement_findings(GOOD, FLOORS) == []


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        ({"matmul_tflops": 390.0}, PreflightCode.SLOW_DEVICE, "390 TFLOP/s, but the floor is 395"),
        ({"memory_gb_s": 900.0}, PreflightCode.SLOW_DEVICE, "900 GB/s"),
        ({"within_gb_s": 20.0}, PreflightCode.SLOW_DEVICE, "within the node reaches 20 GB/s"),
        ({"between_gb_s": 5.0}, PreflightCode.SLOW_NETWORK, "5 GB/s, but the floor is 120"),
        ({"write_gb_s": 0.01}, PreflightCode.SLOW_VOLUME, "0.01 GB/s"),
        ({"memory_errors": 3}, PreflightCode.MEMORY, "3 words"),
        ({"ecc_errors": 2}, PreflightCode.GPU_ERRORS, "2 ECC errors"),
        ({"needs_reset": True}, PreflightCode.GPU_ERRORS, "must be reset"),
    ],
)
def test_each_fault_is_a_finding(
    change: dict[str, float], code: PreflightCode, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_NAME", "ip-1")
    (found,) = measurement_findings(replace(GOOD, **change), FLOORS)  # type: ignore[arg-type]
    assert found.code == code
    assert told in found.rule
    assert found.where.field == "ip-1"
    assert found.fix


def test_what_was_not_measured_or_has_no_floor_is_no_fault() -> None:
    assert measurement_findings(NodeMeasurement("ip-1"), FLOORS) == []
    assert measurement_findings(replace(GOOD, within_gb_s=0.001), NodeFloors()) == []


def test_the_volume_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    # The clock stands still while reading, and a write takes two seconds.
    times = iter([0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.5])
    write, read = measure_volume(tmp_path, 8 << 20, lambda: next(times))
    assert write == pytest.approx((8 << 20) / 2 / 1e9)
    assert read == pytest.approx((8 << 20) / 0.5 / 1e9)
    assert list(tmp_path.iterdir()) == []


def test_a_host_without_gpus_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "open_nvml", lambda: None)
    found = measure_host(tmp_path, 1)
    assert found.write_gb_s is not None
    assert found.write_gb_s > 0
    assert found.ecc_errors is None
    # A volume that cannot be written is the business of the check before.
    assert measure_host(tmp_path / "missing", 1).write_gb_s is None


@pytest.mark.parametrize(
    ("mine", "versions", "told"),
    [
        ("2.27", ["2.27", "2.27", "2.27"], 0),
        ("2.26", ["2.27", "2.27", "2.26"], 1),
        ("2.27", ["2.27", "2.27", "2.26"], 0),
        # No majority: nobody knows which node is wrong.
        ("2.26", ["2.27", "2.26"], 0),
    ],
)
def test_only_the_node_with_another_version_tells(
    mine: str, versions: list[str], told: int
) -> None:
    assert len(version_findings(mine, versions)) == told
