# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""When a run will be done, with what that is worth."""

import math
from dataclasses import dataclass

from seatrial.monitoring.goodput import Bucket, Goodput
from seatrial.monitoring.metrics import WINDOW, Snapshot

MEDIAN_ERROR = 1.25
"""Standard error of a median of normal values, as a multiple of that of their mean (√(π/2))."""
SPREAD_TO_DEVIATION = 1.48
"""A standard deviation is so many times half the distance of the quartiles, for normal values."""
TWO_SIDED = 1.96
"""Standard errors that 19 of 20 lie within."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Seconds until the last step."""

    likely: float
    """Steps as of late, and saves and evaluations as often as so far."""
    soonest: float
    """The same, with the faster end of what the median of recent steps may be."""
    latest: float
    """As the run went so far, with restarts and waiting; or the slower end of the median."""


def outlook(now: Snapshot, spent: Goodput, new_steps: int) -> Outlook | None:
    """When the run will be done; nothing before that can be said.

    `new_steps` are those that the run has done since its log begins, replayed ones counted once.
    """
    if now.total_steps is None or not now.step_seconds or new_steps <= 0:
        return None
    left = max(0, now.total_steps - now.step)
    paused = spent.seconds[Bucket.SAVING] + spent.seconds[Bucket.EVALUATING]
    likely = left * (now.step_seconds + paused / new_steps)
    counted = min(WINDOW, new_steps)
    deviation = (now.step_spread or 0.0) * SPREAD_TO_DEVIATION
    error = left * TWO_SIDED * MEDIAN_ERROR * deviation / math.sqrt(counted)
    as_so_far = left * spent.wall / new_steps
    return Outlook(likely, max(0.0, likely - error), max(likely + error, as_so_far))
