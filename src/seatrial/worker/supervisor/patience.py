# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How long a process may be silent, learned from the run itself.

Steps of one run are alike, so that one that takes five times the usual is no step. Saves and
evaluations are not alike: a full disk or a busy file system makes one save ten times as long as
the one before, and nothing is wrong. They have a patience of their own, far above that.
"""

import math
from collections import deque

from seatrial.worker.supervisor.beats import Phase

STEP_FLOOR = 10.0
STEP_FACTOR = 5.0
"""Steps: max(10 s, 5 × the 99th percentile of recent ones). Five times is also what NVIDIA's
resiliency extension takes of what it has seen (fault_tolerance/config.py, safety_factor)."""
EARLY_STEPS = 20
EARLY_FLOOR = 60.0
"""Before so many steps were seen nobody knows what is usual."""
SLOW_FLOOR = 600.0
SLOW_FACTOR = 20.0
"""Saves, evaluations and the end: max(10 min, 20 × the longest so far)."""
START_FLOOR = 1800.0
START_FACTOR = 5.0
"""The start and the first step: max(30 min, 5 × the longest so far)."""
_RECENT = 1000
_PERCENTILE = 0.99


class Patience:
    """What is usual in this run, and how long to wait for what is not."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._steps: deque[float] = deque(maxlen=_RECENT)
        self._usual = 0.0
        self._longest = dict.fromkeys(Phase, 0.0)

    def learn_step(self, seconds: float) -> None:
        """A step took so long."""
        self._steps.append(seconds)
        ordered = sorted(self._steps)
        self._usual = ordered[min(len(ordered), math.ceil(_PERCENTILE * len(ordered))) - 1]

    def learn_phase(self, phase: Phase, seconds: float) -> None:
        """A phase other than steps took so long."""
        self._longest[phase] = max(self._longest[phase], seconds)

    @property
    def usual_step(self) -> float:
        """The 99th percentile of recent steps, seconds; 0 before there are any."""
        return self._usual

    @property
    def stopped_limit(self) -> float:
        """Seconds that a process may be stopped, whatever it is at."""
        return max(STEP_FLOOR, STEP_FACTOR * self._usual)

    def limit(self, phase: Phase) -> float:
        """Seconds of silence after which something is wrong."""
        if phase is Phase.STEPS:
            if len(self._steps) < EARLY_STEPS:
                return max(EARLY_FLOOR, STEP_FACTOR * self._usual)
            return self.stopped_limit
        if phase in (Phase.STARTING, Phase.FIRST):
            return max(START_FLOOR, START_FACTOR * self._longest[phase])
        return max(SLOW_FLOOR, SLOW_FACTOR * self._longest[phase])
