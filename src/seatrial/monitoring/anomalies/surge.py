# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A curve that jumps up: what the loss and the gradient norm have in common.

What is usual is the median of the newest steps, so that a curve that falls is not held against
its past; how far a step strays from that is measured over more steps. Steps that stray too far are
left out of both, for otherwise a jump would soon be usual.
"""

from collections import deque
from dataclasses import dataclass

from seatrial.monitoring.anomalies.robust import Recent

LOCAL = 16
"""Steps whose median is what is usual now."""
WINDOW = 128
"""Steps that the straying is measured over, as OLMo-core's monitor of spikes does."""
WARM_UP = 32
"""Steps after a start before anything is judged: of fewer, a deviation says little."""
RELEARN = 200
"""Steps after which a level that stays is the new usual one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a step has jumped."""

    deviations: float
    """Standard deviations above what is usual."""
    share: float
    """And at least so much of what is usual above it."""
    at_once: float
    """So much of what is usual above it is enough in a single step."""
    more: float = 0.0
    """And at least so much above what is usual."""
    least: float = 0.0
    """And at least so much in all."""
    of_three: int = 2
    """Steps of three in a row that have to be above, otherwise."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A curve that has jumped."""

    value: float
    """Where it is now."""
    usual: float
    """Where it was."""
    since: int
    """The first step above."""


class Surge:
    """Judges one curve, step by step."""

    def __init__(self, limits: Limits) -> None:
        """Begin before the first step."""
        self._limits = limits
        self._local = Recent(LOCAL)
        self._strays = Recent(WINDOW)
        self._above: deque[tuple[int, bool]] = deque(maxlen=3)
        self._jumped: Jump | None = None
        self._length = 0

    def take(self, step: int, value: float) -> Jump | None:
        """Take in a step; the jump, as long as the curve is up."""
        usual = self._local.median()
        if len(self._strays) < WARM_UP:
            self._learn(value, usual)
            return None
        far = value > max(self._limits.least, usual + self._distance(usual))
        self._above.append((step, far))
        if not far:
            self._learn(value, usual)
        once = far and value > usual * (1 + self._limits.at_once)
        if once or sum(above for _, above in self._above) >= self._limits.of_three:
            first = next(step for step, above in self._above if above)
            since = first if self._jumped is None else self._jumped.since
            self._jumped = Jump(value, usual, since)
            self._length += 1
            if self._length > RELEARN:
                self._forget()
            return self._jumped
        if not far:
            self._jumped, self._length = None, 0
        return None

    def _distance(self, usual: float) -> float:
        """How far above what is usual is too far."""
        limits = self._limits
        deviations = limits.deviations * self._strays.spread()
        return max(deviations, limits.share * usual, limits.more)

    def _learn(self, value: float, usual: float) -> None:
        """What a good step teaches."""
        if self._local.full:
            self._strays.add(value - usual)
        self._local.add(value)

    def _forget(self) -> None:
        """Begin anew."""
        self._local.clear()
        self._strays.clear()
        self._above.clear()
        self._jumped, self._length = None, 0
