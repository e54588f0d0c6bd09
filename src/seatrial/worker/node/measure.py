# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure a node without torch, and judge all its measurements.

The volume is written and read, clocks and versions are read, and NVML is asked for errors. The
findings compare measurements with the floors of the plan.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from seatrial.codes.preflight import PreflightCode
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.node_measurements import NodeMeasurement
from seatrial.planning.node_floors import NodeFloors
from seatrial.worker.node.nvml import KERNEL_LOG, Nvml, open_nvml, xids_in

SMALLEST_FILE = 8 << 20
LARGEST_FILE = 256 << 20
"""Bytes that are written to the volume: as many as a checkpoint has, within these limits."""
PIECE = 4 << 20
LONGEST_SECONDS = 20.0
"""How long a write may take. A slow volume is known by then."""
DRIVER_FILE = Path("/proc/driver/nvidia/version")


def node_name() -> str:
    """Return the name of this node, as Kubernetes knows it."""
    return os.environ.get("NODE_NAME") or os.uname().nodename


def finding(code: PreflightCode, rule: str, fix: str, value: object = "") -> Finding:
    """Create a finding about this node."""
    node = os.environ.get("NODE_NAME", "this node")
    return Finding(code, Severity.ERROR, Where(field=node), rule, str(value), fix)


def measure_host(directory: Path, checkpoint_bytes: int) -> NodeMeasurement:
    """Measure what needs no torch. What cannot be measured is None: it is not a fault."""
    size = max(SMALLEST_FILE, min(LARGEST_FILE, checkpoint_bytes))
    found = NodeMeasurement(node_name(), clock_mhz=_cpu_mhz(), driver=_driver_version())
    with suppress(OSError):
        write, read = measure_volume(directory, size)
        found = replace(found, write_gb_s=write, read_gb_s=read)
    nvml = open_nvml()
    return found if nvml is None else add_gpus(found, nvml, read_kernel_log())


def add_gpus(found: NodeMeasurement, nvml: Nvml, kernel_log: bytes) -> NodeMeasurement:
    """Add driver, clock and errors of the GPUs."""
    readings = [nvml.read(index) for index in range(nvml.count)]
    clocks = [each.clock_mhz for each in readings if each.clock_mhz is not None]
    errors = [each.ecc_errors for each in readings if each.ecc_errors is not None]
    return replace(
        found,
        clock_mhz=float(min(clocks)) if clocks else None,
        driver=nvml.driver() or found.driver,
        ecc_errors=sum(errors) if errors else None,
        needs_reset=any(each.needs_reset for each in readings),
        xids=xids_in(kernel_log),
    )


def measure_volume(
    directory: Path, size: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """Write and read a file, and return both speeds in GB/s."""
    probe = directory / f".preflight-{uuid4().hex}"
    piece = os.urandom(PIECE)
    try:
        began, written = clock(), 0
        with probe.open("xb", buffering=0) as stream:
            while written < size and clock() - began < LONGEST_SECONDS:
                written += stream.write(piece)
            os.fsync(stream.fileno())
        wrote = clock() - began
        began = clock()
        with probe.open("rb", buffering=0) as stream:
            # Otherwise the page cache would be measured.
            with suppress(OSError, AttributeError):
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while stream.read(PIECE) and clock() - began < LONGEST_SECONDS:
                pass
        read = clock() - began
    finally:
        probe.unlink(missing_ok=True)
    return written / max(wrote, 1e-9) / 1e9, written / max(read, 1e-9) / 1e9


def _cpu_mhz() -> float | None:
    """Return the clock of the slowest CPU core; None if the kernel does not state it."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        found = [float(each) for each in re.findall(r"cpu MHz\s*:\s*([\d.]+)", text)]
        return min(found, default=None)
    return None


def _driver_version() -> str:
    """Return the version of the GPU driver from the kernel; empty without one."""
    with suppress(OSError):
        found = re.search(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)", DRIVER_FILE.read_text())
        return found[1] if found else ""
    return ""


def read_kernel_log(path: str = KERNEL_LOG) -> bytes:
    """Return the kernel log; empty if the pod must not read it, which is usual."""
    lines: list[bytes] = []
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            # Each read returns one record, and fails at the end of the log.
            while len(lines) < 100_000 and (line := os.read(file, 8192)):
                lines.append(line)
        except BlockingIOError:
            pass
        finally:
            os.close(file)
    return b"\n".join(lines)


# ------------------------------------------------------------------------------------ judging


def measurement_findings(found: NodeMeasurement, floors: NodeFloors) -> list[Finding]:
    """Return what is wrong with a node by its measurements alone."""
    return [*_error_findings(found), *_floor_findings(found, floors)]


def _error_findings(found: NodeMeasurement) -> Iterator[Finding]:
    if found.memory_errors:
        yield finding(
            PreflightCode.MEMORY,
            f"{found.memory_errors} words of memory did not read back as they were written.",
            "Exclude the node and test its memory.",
            found.memory_errors,
        )
    fix = "Reset the GPUs or reboot the node; replace a GPU if the errors return."
    if found.ecc_errors:
        rule = f"the GPUs have {found.ecc_errors} ECC errors that they could not correct."
        yield finding(PreflightCode.GPU_ERRORS, rule, fix, found.ecc_errors)
    elif found.needs_reset:
        rule = "a GPU must be reset to replace faulty memory rows."
        yield finding(PreflightCode.GPU_ERRORS, rule, fix)


_CLOCKS = "Check clocks, power cap and temperature of its GPUs (nvidia-smi -q); cordon it."
_LINKS = "Check NVLink on the node: nvidia-smi nvlink -s, nvidia-smi topo -m."
_NETWORK = "Check NCCL's output for its network, and the links of the node's adapters."
_VOLUME = "Check the volume's throughput limit, and the node's network to it."
_JUDGED = (
    ("matmul_tflops", "a matrix multiplication", "TFLOP/s", PreflightCode.SLOW_DEVICE, _CLOCKS),
    ("memory_gb_s", "a copy in GPU memory", "GB/s", PreflightCode.SLOW_DEVICE, _CLOCKS),
    ("within_gb_s", "an all-reduce within the node", "GB/s", PreflightCode.SLOW_DEVICE, _LINKS),
    ("between_gb_s", "an all-reduce of two nodes", "GB/s", PreflightCode.SLOW_NETWORK, _NETWORK),
    ("write_gb_s", "a write to the volume", "GB/s", PreflightCode.SLOW_VOLUME, _VOLUME),
)
"""The measurements that have a floor of the same name: what it is, unit, code, fix."""


def _floor_findings(found: NodeMeasurement, floors: NodeFloors) -> Iterator[Finding]:
    for name, what, unit, code, fix in _JUDGED:
        value, least = getattr(found, name), getattr(floors, name)
        if value is not None and value < least:
            rule = f"{what} reaches {value:.3g} {unit}, but the floor is {least:.3g} {unit}."
            yield finding(code, rule, fix, f"{value:.4g}")


def slow_network_finding(best: float, others: float, rounds: int) -> Finding:
    """Report that the search by pairs found this node."""
    return finding(
        PreflightCode.SLOW_NETWORK,
        f"all-reduces with other nodes reach at most {best:.3g} GB/s, but those nodes reach "
        f"{others:.3g} GB/s among themselves ({rounds} rounds of pairs).",
        "Check the links of the node's network adapters; exclude the node.",
        f"{best:.4g}",
    )


def version_findings(mine: str, versions: Sequence[str]) -> list[Finding]:
    """Report a version of NCCL that most nodes do not have."""
    usual = max(sorted(set(versions)), key=versions.count, default=mine)
    if mine == usual or 2 * versions.count(usual) <= len(versions):
        return []
    rule = f"the node has NCCL {mine or 'unknown'}, but most nodes have {usual}."
    fix = "Use the same image and the same fabric libraries on all nodes."
    return [finding(PreflightCode.VERSIONS, rule, fix, mine)]
