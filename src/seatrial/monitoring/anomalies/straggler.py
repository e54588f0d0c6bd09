# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A rank that the others wait for."""

import math
from collections import deque

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import percent
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import rank_figure

SLOWER = 0.15
"""Share of the others' time that a rank takes more."""
STEPS = 16
LEAST_REPORTS = 2
"""Reports of the ranks in which it has to, where each is of many steps."""
MISSED = 8
"""One report in so many may show something else."""
WARM_UP = 10
"""Steps after a start that are not looked at: the first ones make allocators and caches warm."""

RULE = AnomalyRule(
    AnomalyCode.STRAGGLER,
    "Straggler",
    Severity.WARNING,
    f"A rank is more than {percent(SLOWER)} slower than the median of the other ranks of its "
    "pipeline stage, until its gradients are ready to be added up, not counting its wait for data. "
    "On a CPU, time in which the host ran something else is not counted either; while ranks wait "
    "for a core more than nine tenths of the time, nothing is judged.",
    f"{STEPS - STEPS // MISSED} of {STEPS} steps, after {WARM_UP} of warm-up; where the ranks "
    f"report every 10 steps, {LEAST_REPORTS} reports in a row.",
    "All ranks wait for the slowest in every step, so its share is lost by all. Half of the 30 % "
    "that should be found leaves room for noise on both sides; NVIDIA's resiliency extension calls "
    "a rank a straggler at a relative performance of 0.7. If a rank were that far behind in a "
    "quarter of the steps by chance, "
    f"{STEPS - STEPS // MISSED} of {STEPS} would come up once in two million windows.",
    "Look at that node: a GPU's clocks (nvidia-smi -q -d PERFORMANCE), PCIe width, other "
    "processes, its disk. If it goes on, take the node out and start from the last checkpoint.",
)


class Straggler:
    """Follows the ranks that are named as the slowest."""

    rule = RULE
    """What it watches for."""

    def __init__(self) -> None:
        """Begin before the first report."""
        self._reports: deque[dict[int, float]] = deque(maxlen=STEPS)
        self._needed = STEPS
        self._step: int | None = None
        self._warm: int | None = None

    def observe(self, event: Event) -> Seen:
        """Look at a report of the ranks."""
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
        """Who was behind in nearly all of the newest reports."""
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
                said = f"Rank {rank} takes {percent(middle)} longer than the others."
                found.append(Symptom(said, f"{percent(middle)}", max(1, first), f"rank {rank}"))
        return tuple(found)
