# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Estimate when a run will finish, with a range."""

import math
from dataclasses import dataclass

from seatrial.monitoring.goodput import Bucket, Goodput
from seatrial.monitoring.metrics import WINDOW, Snapshot

MEDIAN_ERROR = 1.25
"""Standard error of the median of normal values, as a multiple of that of their mean (√(π/2))."""
SPREAD_TO_DEVIATION = 1.48
"""Standard deviation of normal values, as a multiple of half their interquartile range."""
TWO_SIDED = 1.96
"""Standard errors on either side of a 95 % confidence interval."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Seconds until the last step."""

    likely: float
    """Assumes recent step times, and the past frequency of saves and evaluations."""
    soonest: float
    """As `likely`, with the lower confidence limit of the median step time."""
    latest: float
    """Includes restarts and waiting at their past rate, or the median's upper confidence limit."""


def outlook(now: Snapshot, spent: Goodput, new_steps: int) -> Outlook | None:
    """Estimate the remaining time. Return None if there is not enough data yet.

    `new_steps` is the number of steps since the start of the log; replayed steps count once.
    """
    if now.total_steps is None or not now.step_seconds or new_steps <= 0:
        return None
    left = max(0, now.total_steps - now.step) if now.steps_left is None else now.steps_left
    paused = spent.seconds[Bucket.SAVING] + spent.seconds[Bucket.EVALUATING]
    likely = left * (now.step_seconds + paused / new_steps)
    counted = min(WINDOW, new_steps)
    deviation = (now.step_spread or 0.0) * SPREAD_TO_DEVIATION
    error = left * TWO_SIDED * MEDIAN_ERROR * deviation / math.sqrt(counted)
    as_so_far = left * spent.wall / new_steps
    return Outlook(likely, max(0.0, likely - error), max(likely + error, as_so_far))
