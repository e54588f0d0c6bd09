# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The preflight measurements of nodes: in events, in pods' termination messages, in `status`."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.storage.state_files import DamagedError, decode

MEASURED = "measured"
"""The key of a measurement in the preflight's output."""


@dataclass(frozen=True, slots=True)
class NodeMeasurement:
    """The measurements of one node. None or empty for what was not measured."""

    node: str
    matmul_tflops: float | None = None
    """Matrix multiplication in bf16 on the node's slowest GPU, or in fp32 on a CPU, TFLOP/s."""
    memory_gb_s: float | None = None
    """Copy in the memory of the slowest GPU, bytes read and written, GB/s."""
    memory_errors: int | None = None
    """Words that did not read back as written."""
    within_gb_s: float | None = None
    """Bus bandwidth of an all-reduce between the GPUs of the node, GB/s."""
    between_gb_s: float | None = None
    """Best bus bandwidth of an all-reduce with one other node, GB/s."""
    all_gb_s: float | None = None
    """Bus bandwidth of an all-reduce over all nodes, GB/s."""
    write_gb_s: float | None = None
    """Write to the run's volume, with fsync, GB/s."""
    read_gb_s: float | None = None
    """Read from the run's volume, GB/s."""
    skew_seconds: float | None = None
    """Time of the node's clock minus the median of all nodes."""
    clock_mhz: float | None = None
    """Clock of the slowest GPU after the matrix multiplication, or of the CPU, MHz."""
    driver: str = ""
    """Version of the GPU driver."""
    nccl: str = ""
    """Version of NCCL, or `gloo` and the version of torch."""
    ecc_errors: int | None = None
    """Uncorrectable ECC errors of the node's GPUs since the driver was loaded."""
    needs_reset: bool = False
    """True if a GPU must be reset to replace faulty memory rows."""
    xids: tuple[int, ...] = ()
    """Xid errors of the node's GPUs that the kernel log contains, if the pod can read it."""
    is_slow: bool = False
    """True if the search by pairs found that the node's network is slow."""

    def to_dict(self) -> dict[str, Any]:
        """Return the values that were measured as plain data."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        # An error count of 0 is a result.
        return {
            name: _rounded(value)
            for name, value in values.items()
            if not any(value is each for each in (None, False)) and value not in ("", ())
        }


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return float(f"{value:.4g}") if isinstance(value, float) else value


def read_measurement(value: Any) -> NodeMeasurement | None:
    """Decode a measurement from parsed JSON; None if it is damaged or implausible."""
    try:
        found = decode(NodeMeasurement, value)
    except DamagedError:
        return None
    numbers = (getattr(found, field.name) for field in fields(found))
    if any(isinstance(each, float) and not isfinite(each) for each in numbers):
        return None
    return found


def measurements_of(event: Event) -> tuple[NodeMeasurement, ...]:
    """Return the measurements in a preflight event; empty for other events."""
    values = event.values.get("nodes")
    if event.kind is not EventKind.PREFLIGHT or not isinstance(values, list):
        return ()
    return tuple(filter(None, map(read_measurement, values)))


MOST_ROWS = 16
"""Nodes in a table; the slowest are shown."""
COLUMNS = (
    ("node", ""),
    ("matmul", "TFLOP/s"),
    ("memory", "GB/s"),
    ("within", "GB/s"),
    ("between", "GB/s"),
    ("write", "GB/s"),
    ("read", "GB/s"),
    ("skew", "ms"),
    ("clock", "MHz"),
    ("ECC", ""),
    ("driver", ""),
    ("NCCL", ""),
    ("", ""),
)
"""The columns of a table of measurements, and their units."""


def table_rows(found: Iterable[NodeMeasurement]) -> list[tuple[str, ...]]:
    """Return the rows of a table: slow nodes first, then by bandwidth between nodes."""

    def order(one: NodeMeasurement) -> tuple[bool, float, str]:
        return not one.is_slow, one.between_gb_s or 0.0, one.node

    return [_row(one) for one in sorted(found, key=order)[:MOST_ROWS]]


def _row(one: NodeMeasurement) -> tuple[str, ...]:
    skew = None if one.skew_seconds is None else one.skew_seconds * 1e3
    return (
        one.node,
        _text(one.matmul_tflops),
        _text(one.memory_gb_s),
        _text(one.within_gb_s),
        _text(one.between_gb_s),
        _text(one.write_gb_s),
        _text(one.read_gb_s),
        "" if skew is None else f"{skew:+.0f}",
        "" if one.clock_mhz is None else f"{one.clock_mhz:.0f}",
        "" if one.ecc_errors is None else str(one.ecc_errors),
        one.driver,
        one.nccl,
        "slow" if one.is_slow else "",
    )


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
