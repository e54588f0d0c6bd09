# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that wait for training data."""

import math
from collections import deque

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import finite, percent
from seatrial.monitoring.engine_signals import all_signals
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import RankFigure, rank_figure

SHARE = 0.2
LEAST = 0.02
"""Seconds per step below which a wait is not reported."""
STEPS = 20
"""Steps in which the wait must exceed the threshold."""
MISSED = 5
"""One observation in this many may differ."""
LEAST_REPORTS = 2
WARM_UP = 10

RULE = AnomalyRule(
    AnomalyCode.SLOW_DATA,
    "Slow data",
    Severity.WARNING,
    f"A rank waits for its next batch for more than {percent(SHARE)} of the step, and for more "
    f"than {LEAST * 1000:.0f} ms.",
    f"{STEPS - STEPS // MISSED} of {STEPS} steps, after {WARM_UP} warm-up steps. If the ranks "
    f"report only every 10 steps, {LEAST_REPORTS} consecutive reports.",
    "Batches are prefetched while the GPU computes, so a healthy run waits only for a copy: at "
    f"most 1 % of the step. A wait of {percent(SHARE)} is far above that and wastes "
    f"{percent(SHARE)} of the run. Handing over a batch takes a few milliseconds, so shorter waits "
    "are ignored even if they are a large share of a short step.",
    "Check the disk that stores the data: other readers, its throughput limit, a cold cache. "
    "More data-loader processes help only if the disk has bandwidth left "
    "(engine.options: num-workers). Or copy the data to a local disk.",
)


class SlowData:
    """Compares the wait for data with the step time."""

    rule = RULE

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._looks: deque[tuple[int, float, int | None, bool]] = deque(maxlen=STEPS)
        self._step: int | None = None
        self._left = WARM_UP

    def observe(self, event: Event) -> Seen:
        """Check a report from the ranks, or the timers in the engine's own log."""
        if event.kind is EventKind.START:
            self._step = event.step
        if event.kind is EventKind.STEP:
            self._seconds = finite(event.values.get("seconds"))
        waited = _waited(event)
        if waited is None or not self._seconds:
            return None
        covered = max(1, event.step - self._step) if self._step is not None else 1
        self._step = event.step
        if self._left > 0:
            self._left -= covered
            return None
        longest, rank = waited
        share = longest / max(self._seconds, longest)
        slow = share > SHARE and longest > LEAST
        self._looks.append((event.step, share, rank, slow))
        return self._judge(max(LEAST_REPORTS, math.ceil(STEPS / covered)))

    def _judge(self, needed: int) -> Seen:
        looks = list(self._looks)[-needed:]
        slow = [look for look in looks if look[3]]
        if len(looks) < needed:
            return None
        if len(slow) < needed - needed // MISSED:
            return ()
        share = sorted(look[1] for look in slow)[len(slow) // 2]
        rank = slow[-1][2]
        who = "A rank waits" if rank is None else f"Rank {rank} waits"
        message = f"{who} for data during {percent(share)} of the step."
        return (Symptom(message, f"{percent(share)}", slow[0][0]),)


def _waited(event: Event) -> tuple[float, int | None] | None:
    """Return the longest wait for data per step, and its rank."""
    if event.kind is EventKind.RANKS:
        data: RankFigure | None = rank_figure(event.values.get("data"))
        if data is None or math.isnan(data.most):
            return None
        return data.most, data.highest[0][0] if data.highest else None
    if event.kind is EventKind.TIMERS:
        timers = event.values.get("timers")
        known = timers if isinstance(timers, dict) else {}
        spread = next(filter(None, (known.get(one.data_timer) for one in all_signals())), None)
        longest = finite(spread[-1]) if isinstance(spread, (list, tuple)) and spread else None
        return None if longest is None else (longest, None)
    return None
