# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""GPUs are read through a stand-in for NVML: no GPU is involved."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from seatrial.monitoring.node_measurements import NodeMeasurement
from seatrial.worker.node.measure import add_gpus, read_kernel_log
from seatrial.worker.node.nvml import GpuReading, Nvml, open_nvml, xids_in
from tests.unit.worker.nvml_stand_in import NVMLError, StandInGpu, stand_in


@pytest.mark.parametrize("old", [False, True])
def test_a_gpu_is_read_in_our_units(old: bool) -> None:
    nvml = Nvml(stand_in([StandInGpu(reasons=0x44)], old=old))
    assert nvml.driver() == "580.82.07"
    assert nvml.read(0) == GpuReading(
        utilisation=0.97,
        memory_bytes=float(60 << 30),
        power_watts=650.0,
        clock_mhz=1755,
        temperature=64,
        throttle=0x44,
        ecc_errors=0,
        needs_reset=False,
    )


def test_what_a_gpu_does_not_report_is_none() -> None:
    bare = StandInGpu(None, None, None, None, None, None, None, None)
    found = Nvml(stand_in([bare])).read(0)
    assert found == GpuReading(None, None, None, None, None, None, None, False)


def test_xids_are_told_once_and_by_gpu() -> None:
    one, other = StandInGpu(), StandInGpu()
    nvml = Nvml(stand_in([one, other]))
    other.xids = [63]
    assert nvml.new_xids(1) == ()
    nvml.watch_xids()
    one.xids = [79, 31]
    assert nvml.new_xids(0) == (79, 31)
    assert nvml.new_xids(0) == ()
    assert nvml.new_xids(1) == (63,)
    one.xids = [31] * 10_000
    assert len(nvml.new_xids(0)) == 100


def test_a_node_has_the_slowest_clock_and_all_errors() -> None:
    gpus = [StandInGpu(), StandInGpu(clock=1200, ecc=2), StandInGpu(rows=(0, 1, 1, 0))]
    log = b"6,1,1,-;NVRM: Xid (PCI:0000:81:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = add_gpus(NodeMeasurement("ip-1"), Nvml(stand_in(gpus)), log + log)
    assert found.clock_mhz == 1200
    assert found.ecc_errors == 2
    assert found.needs_reset
    assert found.xids == (79,)
    assert found.driver == "580.82.07"


def test_a_kernel_log_that_is_closed_to_us_is_empty(tmp_path: Path) -> None:
    assert read_kernel_log(str(tmp_path / "none")) == b""
    assert xids_in(b"") == ()


def broken() -> ModuleType:
    module = stand_in([])

    def fail() -> None:
        raise NVMLError("NVML Shared Library Not Found")

    module.nvmlInit = fail  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("module", [None, broken(), stand_in([]), ModuleType("pynvml")])
def test_without_package_library_or_gpu_there_is_nothing_to_read(
    module: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert open_nvml() is None


def test_the_installed_package_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in([StandInGpu()] * 8))
    found = open_nvml()
    assert found is not None
    assert found.count == 8
