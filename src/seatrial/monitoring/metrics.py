# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of a run in progress, updated event by event."""

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seatrial.monitoring.engine_signals import all_signals
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import RankFigure, rank_figure
from seatrial.monitoring.series import Series
from seatrial.monitoring.utilisation import MfuBasis

WINDOW = 50
"""Steps over which rates are computed: enough that one slow step is not a trend, and so few that a
drop shows within minutes."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run's metrics at its newest step; None if unknown."""

    step: int
    total_steps: int | None
    """Target number of steps."""
    time: float | None
    """When the newest step finished, seconds since 1970."""
    loss: float | None
    """Loss of the newest step."""
    grad_norm: float | None
    """Gradient norm of the newest step."""
    learning_rate: float | None
    """Learning rate of the newest step."""
    skipped: int
    """Total steps that the loss scaler skipped."""
    step_seconds: float | None
    """Median seconds of recent steps."""
    step_spread: float | None
    """Half the interquartile range of recent steps, in seconds."""
    tokens_per_second: float | None
    """Over all GPUs, at the median step."""
    flops_per_gpu: float | None
    """FLOP/s per GPU at the median step, from the basis or as the engine printed it."""
    mfu: float | None
    """Share of the peak at the median step, from the basis or as the engine printed it."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Mean seconds of each part of recent steps."""
    data_share: float | None = None
    """Share of recent steps that the slowest rank waited for data."""
    busy: RankFigure | None = None
    """Seconds until each rank started to wait for the others, in the newest step that has them."""
    memory: int | None = None
    """The most device memory that a rank reserved (or allocated, if only that is known)."""
    memory_rank: int | None = None
    evaluation: float | None = None
    """Loss of the newest evaluation."""
    tokens_per_step: int | None = None
    """Tokens of the newest step."""
    steps_left: float | None = None
    """Steps of the newest batch size that read the samples that are left, if batch sizes change."""

    @property
    def skew(self) -> float | None:
        """How far the slowest rank is above the median rank, as a share of the median."""
        return None if self.busy is None else self.busy.skew


class Metrics:
    """Aggregates events into metrics in constant memory."""

    def __init__(self, basis: MfuBasis | None = None, window: int = WINDOW) -> None:
        """Start before the first event. `basis` gives the tokens and FLOPs of a step, if known."""
        self._basis = basis
        self._seconds: deque[float] = deque(maxlen=window)
        self._parts: deque[Mapping[str, float]] = deque(maxlen=window)
        self._data: deque[float] = deque(maxlen=window)
        self._newest: dict[str, Any] = {}
        self._batch_sizes: set[int] = set()
        self._event: Event | None = None
        self._settings: dict[str, Any] = {}
        self._skipped = 0
        self._busy: RankFigure | None = None
        self._memory: tuple[int, int] | None = None
        self._evaluation: float | None = None
        self.loss = Series()
        self.grad_norm = Series()
        self.step_seconds = Series()

    def take(self, event: Event) -> None:
        match event.kind:
            case EventKind.START:
                self._settings |= {k: v for k, v in event.values.items() if _finite(v) is not None}
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
        self._sized(values.get("global_batch_size"))
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

    def _sized(self, batch: object) -> None:
        """Forget the times of steps with a different batch size."""
        before = self._newest.get("global_batch_size")
        if not isinstance(batch, int):
            return
        self._batch_sizes.add(batch)
        if before is not None and batch != before:
            self._seconds.clear()
            self._parts.clear()
            self._data.clear()

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
        """Use the timers of the engine: data loading, and the parts of a step if printed."""
        timers = event.values.get("timers")
        if not isinstance(timers, Mapping):
            return
        signals = next((one for one in all_signals() if one.step_timer in timers), None)
        if signals is None:
            return
        most = {name: spread[-1] for name, spread in timers.items() if spread}
        self._parts.append(most)
        if signals.data_timer in most and self._seconds:
            self._data.append(most[signals.data_timer] / self._seconds[-1])

    def _held(self, size: float | None, rank: object) -> None:
        most = self._memory[0] if self._memory else -1
        if size is not None and isinstance(rank, int) and size > most:
            self._memory = (round(size), rank)

    def basis(self) -> MfuBasis | None:
        """Return the given basis, or derive one from the engine's settings at the start.

        It is for the batch size of the newest step.
        """
        settings, own = self._settings, self._newest.get("global_batch_size")
        batch = settings.get("global_batch_size") if own is None else own
        length, gpus = settings.get("sequence_length"), settings.get("world_size")
        known = self._basis
        if known is not None:
            return known.with_tokens(int(own) * int(length)) if own and length else known
        if batch and length and gpus:
            return MfuBasis(int(batch) * int(length), int(gpus))
        return None

    @property
    def tokens_per_step(self) -> int | None:
        """The tokens of every step so far; None if unknown, or if the batch size has changed."""
        basis = self.basis()
        return None if basis is None or len(self._batch_sizes) > 1 else basis.tokens_per_step

    def _steps_left(self) -> float | None:
        """Return the steps of the newest batch size for the samples that are left."""
        total = _finite(self._settings.get("total_samples"))
        names = ("consumed_samples", "global_batch_size")
        consumed, batch = (_finite(self._newest.get(name)) for name in names)
        if total is None or consumed is None or not batch:
            return None
        return max(0.0, total - consumed) / batch

    def snapshot(self) -> Snapshot:
        """Return the current metrics."""
        values = self._newest
        usual = statistics.median(self._seconds) if self._seconds else None
        basis = self.basis()
        tokens = flops = mfu = None
        if basis is not None and usual:
            tokens = basis.tokens_per_second(usual)
            flops, mfu = basis.flops_per_gpu(usual), basis.mfu(usual)
        printed = _finite(values.get("tflops_per_gpu"))
        total = _finite(values.get("total_steps", self._settings.get("total_steps")))
        held, rank = self._memory or (None, None)
        return Snapshot(
            step=self._event.step if self._event else 0,
            total_steps=None if total is None else int(total),
            time=self._event.time if self._event else None,
            loss=values.get("loss"),
            grad_norm=values.get("grad_norm"),
            learning_rate=values.get("learning_rate"),
            tokens_per_step=None if basis is None else basis.tokens_per_step,
            steps_left=self._steps_left(),
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
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)


def _finite(value: object) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good and isinstance(value, (int, float)) else None


def _spread(seconds: deque[float]) -> float | None:
    """Return half the interquartile range."""
    if len(seconds) < 4:
        return None
    low, _, high = statistics.quantiles(seconds, n=4)
    return (high - low) / 2


def _means(parts: deque[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each part, over the steps that have it."""
    names = dict.fromkeys(name for step in parts for name in step)
    return {name: statistics.mean(p[name] for p in parts if name in p) for name in names}
