# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run while it goes on, from its events one by one."""

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import RankFigure, rank_figure
from seatrial.monitoring.series import Series
from seatrial.monitoring.utilisation import MfuBasis

WINDOW = 50
"""Steps that rates are taken over: long enough that one slow step does not show as a trend, short
enough that a drop shows within minutes."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run's numbers at its newest step; what is not known is none."""

    step: int
    total_steps: int | None
    """Steps that the run was told to do."""
    time: float | None
    """When the newest step was done, seconds since 1970."""
    loss: float | None
    """Loss of the newest step."""
    grad_norm: float | None
    """Gradient norm of the newest step."""
    learning_rate: float | None
    """Learning rate of the newest step."""
    skipped: int
    """Steps that the loss scale skipped, so far."""
    step_seconds: float | None
    """Median of the seconds of recent steps."""
    step_spread: float | None
    """Half the width of the middle half of recent steps, in seconds."""
    tokens_per_second: float | None
    """Of all GPUs, at the median step."""
    flops_per_gpu: float | None
    """FLOP/s of one GPU at the median step, as the basis counts, or as the engine printed."""
    mfu: float | None
    """Share of the peak at the median step, as the basis counts, or as the engine printed."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Mean seconds of the parts of recent steps."""
    data_share: float | None = None
    """Share of recent steps that the slowest rank waited for data."""
    busy: RankFigure | None = None
    """Seconds until each rank began to wait for the others, of the newest step that tells."""
    memory: int | None = None
    """The most device memory that a rank has reserved (or allocated, where only that is told)."""
    memory_rank: int | None = None
    evaluation: float | None = None
    """Loss of the newest evaluation."""

    @property
    def skew(self) -> float | None:
        """How much the slowest rank is above the median rank, as a share of it."""
        return None if self.busy is None else self.busy.skew


class Metrics:
    """Takes events and keeps what is shown; its size does not grow with their number."""

    def __init__(self, basis: MfuBasis | None = None, window: int = WINDOW) -> None:
        """Begin before the first event, with what a step is worth if that is known."""
        self._basis = basis
        self._seconds: deque[float] = deque(maxlen=window)
        self._parts: deque[Mapping[str, float]] = deque(maxlen=window)
        self._data: deque[float] = deque(maxlen=window)
        self._newest: dict[str, Any] = {}
        self._event: Event | None = None
        self._told: dict[str, Any] = {}
        self._skipped = 0
        self._busy: RankFigure | None = None
        self._memory: tuple[int, int] | None = None
        self._evaluation: float | None = None
        self.loss = Series()
        self.grad_norm = Series()
        self.step_seconds = Series()

    def take(self, event: Event) -> None:
        """Take in one event."""
        match event.kind:
            case EventKind.START:
                self._told |= {k: v for k, v in event.values.items() if _finite(v) is not None}
            case EventKind.STEP:
                self._stepped(event)
            case EventKind.RANKS:
                self._ranks(event)
            case EventKind.TIMERS:
                self._timers(event)
            case EventKind.MEMORY:
                size = event.values.get("max_reserved", event.values.get("max_allocated"))
                self._held(_finite(size), event.values.get("rank", 0))
            case EventKind.EVALUATION:
                loss = _finite(event.values.get("loss"))
                self._evaluation = self._evaluation if loss is None else loss
            case _:
                pass

    def _stepped(self, event: Event) -> None:
        values = event.values
        self._event, self._newest = event, values
        self._skipped += int(values.get("skipped") or 0)
        for name, series in (("loss", self.loss), ("grad_norm", self.grad_norm)):
            value = values.get(name)
            if isinstance(value, (int, float)):
                series.take(event.step, value)
        seconds = _finite(values.get("seconds"))
        if seconds is not None and seconds > 0:
            self._seconds.append(seconds)
            self.step_seconds.take(event.step, seconds)
        parts = values.get("parts")
        if isinstance(parts, Mapping):
            known = {name: value for name, value in parts.items() if _finite(value) is not None}
            self._parts.append(known)
        memory = values.get("memory")
        if isinstance(memory, Mapping):
            keys = ("peak_reserved_mem", "reserved_mem", "peak_allocated_mem", "allocated_mem")
            self._held(next((_finite(memory[key]) for key in keys if key in memory), None), 0)

    def _ranks(self, event: Event) -> None:
        self._busy = rank_figure(event.values.get("busy")) or self._busy
        data = rank_figure(event.values.get("data"))
        seconds = self._seconds[-1] if self._seconds else None
        if data is not None and seconds:
            self._data.append(data.most / seconds)
        memory = rank_figure(event.values.get("memory"))
        if memory is not None and memory.highest:
            self._held(_finite(memory.most), memory.highest[0][0])

    def _timers(self, event: Event) -> None:
        """The engine's own timers: data loading, and the parts of a step where they are printed."""
        timers = event.values.get("timers")
        if not isinstance(timers, Mapping) or "forward-backward" not in timers:
            return
        most = {name: spread[-1] for name, spread in timers.items() if spread}
        self._parts.append(most)
        if "batch-generator" in most and self._seconds:
            self._data.append(most["batch-generator"] / self._seconds[-1])

    def _held(self, size: float | None, rank: object) -> None:
        most = self._memory[0] if self._memory else -1
        if size is not None and isinstance(rank, int) and size > most:
            self._memory = (round(size), rank)

    def basis(self) -> MfuBasis | None:
        """What a step is worth: as given, or by what the engine was told at the start."""
        if self._basis is not None:
            return self._basis
        told = self._told
        batch = self._newest.get("global_batch_size", told.get("global_batch_size"))
        length, gpus = told.get("sequence_length"), told.get("world_size")
        if batch and length and gpus:
            return MfuBasis(int(batch) * int(length), int(gpus))
        return None

    def snapshot(self) -> Snapshot:
        """The numbers now."""
        values = self._newest
        usual = statistics.median(self._seconds) if self._seconds else None
        basis = self.basis()
        tokens = flops = mfu = None
        if basis is not None and usual:
            tokens = basis.tokens_per_second(usual)
            flops, mfu = basis.flops_per_gpu(usual), basis.mfu(usual)
        printed = _finite(values.get("tflops_per_gpu"))
        total = _finite(values.get("total_steps", self._told.get("total_steps")))
        held, rank = self._memory or (None, None)
        return Snapshot(
            step=self._event.step if self._event else 0,
            total_steps=None if total is None else int(total),
            time=self._event.time if self._event else None,
            loss=values.get("loss"),
            grad_norm=values.get("grad_norm"),
            learning_rate=values.get("learning_rate"),
            skipped=self._skipped,
            step_seconds=usual,
            step_spread=_spread(self._seconds),
            tokens_per_second=_or(tokens, _finite(values.get("tokens_per_second"))),
            flops_per_gpu=_or(
                flops, _finite(values.get("flops_per_gpu")), printed and printed * 1e12
            ),
            mfu=_or(mfu, _finite(values.get("mfu"))),
            parts=_means(self._parts),
            data_share=statistics.mean(self._data) if self._data else None,
            busy=self._busy,
            memory=held,
            memory_rank=rank,
            evaluation=self._evaluation,
        )


def _or(*values: float | None) -> float | None:
    """The first that is known."""
    return next((value for value in values if value is not None), None)


def _finite(value: object) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good and isinstance(value, (int, float)) else None


def _spread(seconds: deque[float]) -> float | None:
    """Half the distance of the quartiles."""
    if len(seconds) < 4:
        return None
    low, _, high = statistics.quantiles(seconds, n=4)
    return (high - low) / 2


def _means(parts: deque[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each part, over the steps that tell of it."""
    names = dict.fromkeys(name for told in parts for name in told)
    return {name: statistics.mean(p[name] for p in parts if name in p) for name in names}
