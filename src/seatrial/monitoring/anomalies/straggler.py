# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A rank that slows down the others."""

import math
from collections import deque

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import percent
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import rank_figure

SLOWER = 0.15
"""Share by which a rank is slower than the others."""
STEPS = 16
LEAST_REPORTS = 2
"""Minimum number of reports, if each covers many steps."""
MISSED = 8
"""One report in this many may differ."""
WARM_UP = 10
"""Steps after a start that are ignored, while allocators and caches warm up."""

RULE = AnomalyRule(
    AnomalyCode.STRAGGLER,
    "Straggler",
    Severity.WARNING,
    f"A rank is more than {percent(SLOWER)} slower than the median of the other ranks of its "
    "pipeline stage, until its gradients are ready to be reduced, not counting its wait for data. "
    "On a CPU, time in which the host ran something else does not count either. The check is off "
    "while ranks wait for a core more than nine tenths of the time.",
    f"{STEPS - STEPS // MISSED} of {STEPS} steps, after {WARM_UP} of warm-up; if the ranks "
    f"report every 10 steps, {LEAST_REPORTS} reports in a row.",
    "In every step all ranks wait for the slowest, so all of them lose its delay. The threshold "
    "is half of the 30 % that must be detected, which leaves room for noise; NVIDIA's resiliency "
    "extension calls a rank a straggler at a relative performance of 0.7. If a rank were that far "
    "behind in a quarter of the steps by chance, "
    f"{STEPS - STEPS // MISSED} of {STEPS} would occur once in two million windows.",
    "Check that node: the GPU's clocks (nvidia-smi -q -d PERFORMANCE), PCIe width, other "
    "processes, its disk. If it persists, exclude the node and resume from the last checkpoint.",
)


class Straggler:
    """Tracks the ranks that are named as the slowest."""

    rule = RULE

    def __init__(self) -> None:
        self._reports: deque[dict[int, float]] = deque(maxlen=STEPS)
        self._needed = STEPS
        self._step: int | None = None
        self._warm: int | None = None

    def observe(self, event: Event) -> Seen:
        """Check a report of the ranks."""
        if event.kind is EventKind.START:
            self._step = event.step
        if event.kind is not EventKind.RANKS:
            return None
        covered = max(1, event.step - self._step) if self._step is not None else 1
        self._step = event.step
        lag = rank_figure(event.values.get("lag"))
        if lag is None:
            return None
        self._warm = event.step - covered + WARM_UP if self._warm is None else self._warm
        if event.step - covered < self._warm and covered <= WARM_UP:
            return None
        self._needed = max(LEAST_REPORTS, math.ceil(STEPS / covered))
        self._reports.append({rank: share for rank, share in lag.highest if share > SLOWER})
        return self._judge(event.step, covered)

    def _judge(self, step: int, covered: int) -> Seen:
        """Return the ranks that were slow in nearly all of the newest reports."""
        newest = list(self._reports)[-self._needed :]
        if len(newest) < self._needed:
            return None
        enough = self._needed - self._needed // MISSED
        found = []
        for rank in sorted({rank for report in newest for rank in report}):
            shares = sorted(report[rank] for report in newest if rank in report)
            if len(shares) >= enough:
                middle = shares[len(shares) // 2]
                first = step - self._needed * covered + 1
                message = f"Rank {rank} takes {percent(middle)} longer than the others."
                found.append(Symptom(message, f"{percent(middle)}", max(1, first), f"rank {rank}"))
        return tuple(found)
