# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a step's time on this rank, and their exchange between ranks.

A rank is busy from the start of a step until its gradients are ready to be reduced. After that, all
ranks wait for the slowest, so only the busy time identifies a straggler. Ranks that communicate
inside layers (tensor parallelism) or between stages (pipeline parallelism) also wait for each other
while they are busy: a straggler then makes its whole model replica appear slow.
"""

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from seatrial.monitoring.rank_times import RankFigure, lags, sum_up
from seatrial.worker.process import core_wait_seconds
from seatrial.worker.settings import Device

FIGURES = ("busy", "data", "memory", "starved", "pace", "stage")
"""The values that every rank sends to the others, in this order.

`pace` is the median of the rank's busy time without the wait for data. On CPU, it also excludes the
time in which the host ran other processes (`starved`), because a rehearsal shares its cores.
"""
SHOWN = ("busy", "data", "memory")
SHOWN_ON_CPU = (*SHOWN, "starved")
"""The values that are logged unchanged."""
STARVING = 0.9
"""Maximum share of its busy time that a rank may wait for a core. Above it, the remainder is a
small difference of two large numbers, distorted by cold caches, and the pace is meaningless."""


class StepParts:
    """Marks the moments of a step, on the clock of the device that computes it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._marks: dict[str, Any] = {}
        self._data = self._data_starved = 0.0
        self._sums = [0.0, 0.0, 0.0]
        self._paces: list[float] = []
        self._steps = 0

    def begin(self) -> None:
        self._marks = {}
        self._data = self._data_starved = 0.0
        self.mark("began")

    def mark(self, name: str) -> None:
        """Mark the current moment; on a GPU, the moment when the device reaches this point."""
        if self._device is Device.CPU:
            self._marks[name] = time.perf_counter()
            self._marks[f"{name} waited"] = self._waited()
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks[name] = event

    def loading(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the function that returns the next micro-batch, to measure its duration."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            began, waited = time.perf_counter(), self._waited()
            try:
                return function(*args, **kwargs)
            finally:
                self._data += time.perf_counter() - began
                self._data_starved += self._waited() - waited

        return timed

    def finish(self, seconds: float) -> dict[str, float]:
        """Return the parts of a step, which add up to its duration."""
        busy = self._between("began", "ready")
        reduced = self._between("ready", "reduced")
        updated = self._between("reduced", "ended")
        # A wait for a core during a wait for data counts as a wait for data.
        starved = self._between("began waited", "ready waited") - self._data_starved
        self._steps += 1
        self._paces.append(max(0.0, busy - self._data - starved))
        self._sums = [self._sums[0] + busy, self._sums[1] + self._data, self._sums[2] + starved]
        parts = {
            "data": self._data,
            "compute": max(0.0, busy - self._data),
            "gradients": reduced,
            "optimizer": updated,
        }
        parts["other"] = max(0.0, seconds - sum(parts.values()))
        return {name: round(value, 6) for name, value in parts.items()}

    def share(self, world_size: int, stage: int, wanted: bool) -> dict[str, RankFigure]:
        """Exchange the times since the last call. Every rank must call this.

        Only the rank with `wanted` receives the summaries.
        """
        busy, data, starved = (value / max(1, self._steps) for value in self._sums)
        pace = statistics.median(self._paces) if self._paces else 0.0
        self._sums, self._paces, self._steps = [0.0, 0.0, 0.0], [], 0
        mine = [busy, data, float(self._memory()), starved, pace, float(stage)]
        every = [mine]
        if world_size > 1:
            place = "cpu" if self._device is Device.CPU else "cuda"
            sent = torch.tensor(mine, dtype=torch.float64, device=place)
            gathered = torch.empty(world_size * len(mine), dtype=torch.float64, device=place)
            torch.distributed.all_gather_into_tensor(gathered, sent)
            every = gathered.view(world_size, len(mine)).tolist() if wanted else []
        if not wanted:
            return {}
        columns = dict(zip(FIGURES, zip(*every, strict=True), strict=True))
        shown = SHOWN_ON_CPU if self._device is Device.CPU else SHOWN
        figures = {name: sum_up(columns[name]) for name in shown}
        waits = zip(columns["starved"], columns["busy"], strict=True)
        if any(starved > STARVING * busy for starved, busy in waits):
            return figures
        if self._device is Device.CPU:
            figures["pace"] = sum_up(columns["pace"])
        lag = sum_up(lags(columns["pace"], [int(stage) for stage in columns["stage"]]))
        return figures | ({"lag": lag} if lag.highest else {})

    def agree(self, willing: bool) -> bool:
        """True if every rank is willing. A single unwilling rank would block the others."""
        if not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
            return willing
        place = "cpu" if self._device is Device.CPU else "cuda"
        answer = torch.tensor([int(willing)], dtype=torch.int32, device=place)
        torch.distributed.all_reduce(answer, op=torch.distributed.ReduceOp.MIN)
        return bool(answer.item())

    def _between(self, first: str, second: str) -> float:
        """Return the seconds between two marks; 0 if the engine skipped one."""
        one, other = self._marks.get(first), self._marks.get(second)
        if one is None or other is None:
            return 0.0
        if self._device is Device.CPU:
            return float(other - one)
        other.synchronize()
        return float(one.elapsed_time(other)) / 1000

    def _waited(self) -> float:
        """Return the total time in seconds that this thread has waited for a core."""
        return core_wait_seconds() if self._device is Device.CPU else 0.0

    def _memory(self) -> int:
        """Return the peak memory: reserved GPU memory, or the memory of the process on CPU."""
        if self._device is Device.CPU:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(torch.cuda.max_memory_reserved())
