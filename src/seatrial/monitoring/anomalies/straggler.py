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
    f"A rank takes more than {percent(SLOWER)} longer than the median of the other ranks in its "
    "pipeline stage to compute its gradients, up to the start of their reduction. Time spent "
    "waiting for data does not count. On a CPU, time spent waiting for a core does not count "
    "either, and the check is off while ranks wait for a core more than 90 % of the time.",
    f"{STEPS - STEPS // MISSED} of {STEPS} steps, after {WARM_UP} warm-up steps. If the ranks "
    f"report only every 10 steps, {LEAST_REPORTS} consecutive reports.",
    "In every step, all ranks wait for the slowest one, so its delay slows down the whole run. The "
    "threshold is half of the 30 % slowdown that must be detected, which leaves room for noise. "
    "NVIDIA's resiliency extension treats a rank as a straggler at a relative performance of 0.7. "
    "If noise alone pushed a rank above the threshold in a quarter of its steps, "
    f"{STEPS - STEPS // MISSED} of {STEPS} steps would exceed it in one of two million windows.",
    "Check the rank's node: GPU clocks (nvidia-smi -q -d PERFORMANCE), PCIe link width, other "
    "processes, disk. If the rank stays slow, exclude the node and resume from the last "
    "checkpoint.",
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
        """Check a report from the ranks."""
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
                message = f"Rank {rank} takes {percent(middle)} longer than the other ranks."
                found.append(Symptom(message, f"{percent(middle)}", max(1, first), f"rank {rank}"))
        return tuple(found)
