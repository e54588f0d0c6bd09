# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How long a process may go without a heartbeat, learned from the run itself.

Steps in one run take similar times, so a step that takes five times the usual time is hung. If the
batch grows to more than four times its size at once, the timeout grows with it. Saves
and evaluations vary: on a busy file system, a save can take ten times as long as the last one.
Therefore they have a separate, much longer timeout. `monitoring/hang_timeouts.py` defines the
factors, which the monitor also uses.
"""

import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from seatrial.monitoring.hang_timeouts import (
    SAVE_FLOOR,
    SAVE_KILL_FACTOR,
    STEP_FLOOR,
    step_factor,
)
from seatrial.worker.supervisor.heartbeats import Beat, RankPhase

EARLY_STEPS = 20
EARLY_FLOOR = 60.0
"""Longer minimum timeout, in seconds, until `EARLY_STEPS` steps have been observed."""
START_FLOOR = 1800.0
START_FACTOR = 5.0
"""Timeout for the start and the first step: max(30 min, 5 × the longest observed)."""
_RECENT = 1000
_PERCENTILE = 0.99


class HeartbeatTimeouts:
    """Learns the usual durations of this run and derives timeouts."""

    def __init__(self, growth: float = 1.0) -> None:
        """Start without observations.

        Args:
            growth: The largest factor by which the batch, and a step with it, grows at once.
        """
        self._factor = step_factor(growth)
        self._steps: deque[float] = deque(maxlen=_RECENT)
        self._usual = 0.0
        self._longest = dict.fromkeys(RankPhase, 0.0)

    def learn_step(self, seconds: float) -> None:
        """Learn from the duration of a step."""
        self._steps.append(seconds)
        ordered = sorted(self._steps)
        self._usual = ordered[min(len(ordered), math.ceil(_PERCENTILE * len(ordered))) - 1]

    def learn_phase(self, phase: RankPhase, seconds: float) -> None:
        """Learn from the duration of a phase other than steps."""
        self._longest[phase] = max(self._longest[phase], seconds)

    @property
    def usual_step(self) -> float:
        """The 99th percentile of recent step times in seconds; 0 before the first step."""
        return self._usual

    @property
    def stopped_limit(self) -> float:
        """Seconds that a process may be stopped, in any phase."""
        return max(STEP_FLOOR, self._factor * self._usual)

    def limit(self, phase: RankPhase) -> float:
        """Return the timeout for a phase in seconds."""
        if phase is RankPhase.STEPS:
            if len(self._steps) < EARLY_STEPS:
                return max(EARLY_FLOOR, self._factor * self._usual)
            return self.stopped_limit
        if phase in (RankPhase.STARTING, RankPhase.FIRST):
            return max(START_FLOOR, START_FACTOR * self._longest[phase])
        return max(SAVE_FLOOR, SAVE_KILL_FACTOR * self._longest[phase])


MARGIN = 0.9
"""Seconds subtracted from a timeout, because checks run every quarter of a second, and later on a
busy host."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Processes whose heartbeats are overdue."""

    beats: tuple[Beat, ...]
    seconds: float
    """Seconds since the oldest of their heartbeats."""
    limit: float
    """The timeout."""


class HeartbeatWatch:
    """Follows the heartbeats on a node, and learns the usual durations from them."""

    def __init__(self, patience: HeartbeatTimeouts | None = None) -> None:
        self.patience = patience or HeartbeatTimeouts()
        self._last: dict[int, Beat] = {}

    def look(self, beats: Iterable[Beat], alive: Collection[int], now: float) -> Silence | None:
        """Learn from new heartbeats. Return the processes that are overdue, or None.

        While one rank finishes a save, the other ranks wait for it inside a step. So no process is
        overdue while another process is in a slow phase and within its timeout.
        """
        here = [beat for beat in beats if beat.process in alive]
        for beat in here:
            self._learn(beat)
        late = [beat for beat in here if self._is_late(beat, now)]
        slow = [
            beat
            for beat in here
            if beat.phase is not RankPhase.STEPS and not self._is_late(beat, now)
        ]
        if not late or slow:
            return None
        first = min(late, key=lambda beat: beat.since)
        return Silence(tuple(late), now - first.since, self.patience.limit(first.phase))

    def _is_late(self, beat: Beat, now: float) -> bool:
        return now - beat.since > self.patience.limit(beat.phase) - MARGIN

    def _learn(self, beat: Beat) -> None:
        last = self._last.get(beat.rank)
        self._last[beat.rank] = beat
        if last is None or last.process != beat.process:
            return
        if beat.step > last.step and beat.seconds > 0:
            self.patience.learn_step(beat.seconds)
        if beat.phase is not last.phase and last.phase is not RankPhase.STEPS:
            self.patience.learn_phase(last.phase, beat.since - last.since)
