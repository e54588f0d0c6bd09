# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Timed runs: all of them ran, so that each one said not to fit is a false alarm.

Runs with FSDP are of software that the planner has no constants of, so that they are judged by
those of megatron-core with the error bar of what is borrowed. fms-fsdp recomputes every other layer
and torchtitan single operations where they say `selective`; neither is modelled, and both are taken
as none.

Of NVIDIA's runs nobody published the memory. Most do not state what they recomputed; they are
judged as if nothing was, which is the most that they can have needed of activations. Neither do
they say whether moments were kept in half precision or activations on the host. Weights of 8-bit
runs are kept in 8 bits only, as in NVIDIA's own recipes (NVIDIA-NeMo/Megatron-Bridge@0509780
src/megatron/bridge/training/mixed_precision.py, `fp8_param_gather`; not so in 4 bits).
"""

from dataclasses import dataclass, replace

from backtest.rows import Row, published, stated_recompute, timed_rows
from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.planning.memory.estimate import memory
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute
from seatrial.spec.training import Precision

SOURCES = (
    "MLPerf",
    "Megatron-Bridge",
    "Megatron-LM README",
    "Megatron-MoE-ModelZoo",
    "NVIDIA dgxc",
    "NeMo perf",
)
"""Beginnings of the names of NVIDIA's sources that train with Megatron."""
FSDP_SOURCES = {
    "llm-foundry": "llm-foundry",
    "IBM fms-fsdp": "fms-fsdp",
    "torchtitan": "torchtitan",
}
"""Sources that train with FSDP, and the names of their stacks."""
LARGER = {"H100-96GB(500W)": 96 / 80}
"""GPUs of published rows with more memory than the one of the catalog that stands for them."""
STACK = "megatron-core"
NOT_REFUSED = (MemoryFit.FITS, MemoryFit.RISKY)


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that ran, with what the planner says of it."""

    row: Row
    workload: Workload
    stated: bool
    verdict: MemoryFit
    ratio: float

    @property
    def least_error(self) -> float:
        """The least error bar with which the run is not said to be impossible."""
        return max(0.0, 1 - 1 / self.ratio)

    @property
    def not_refused_in_full(self) -> bool:
        """Whether it would not be refused if it recomputed every layer."""
        return memory(replace(self.workload, recompute=Recompute.FULL)).verdict in NOT_REFUSED


def runs() -> list[Ran]:
    """Every timed run of NVIDIA's sources, judged with the shipped constants."""
    stated = {row["id"]: row["recompute"] for row in published()}
    return [_judged(row, stated[row.id]) for row in timed_rows() if row.source.startswith(SOURCES)]


def fsdp_runs() -> dict[str, list[Ran]]:
    """Every timed run of sources that train with FSDP, by source."""
    found: dict[str, list[Ran]] = {source: [] for source in FSDP_SOURCES}
    for row in timed_rows():
        if row.source in FSDP_SOURCES:
            hardware = row.workload.hardware
            room = int(hardware.memory_bytes * LARGER.get(row.gpu, 1))
            workload = replace(
                row.workload,
                stack=FSDP_SOURCES[row.source],
                hardware=replace(hardware, memory_bytes=room),
            )
            found[row.source].append(_verdict(row, workload, stated=True))
    return found


def _judged(row: Row, recompute: str) -> Ran:
    kind, modules = stated_recompute(recompute)
    workload = replace(
        row.workload,
        stack=STACK,
        recompute=kind,
        recompute_modules=modules,
        narrow_weights=row.workload.precision in (Precision.FP8, Precision.MXFP8),
    )
    return _verdict(row, workload, stated=bool(recompute))


def _verdict(row: Row, workload: Workload, *, stated: bool) -> Ran:
    found = memory(workload)
    ratio = found.fullest.total / workload.hardware.memory_bytes
    return Ran(row, workload, stated, found.verdict, ratio)
