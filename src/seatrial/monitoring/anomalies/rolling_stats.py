# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Medians over the newest values: what a few wild values do not move."""

import math
import statistics
from collections import deque
from collections.abc import Iterable

NORMAL = 1.4826
"""Times the median absolute deviation, this is the standard deviation of normal values."""


class Recent:
    """The newest values, and what is usual among them."""

    def __init__(self, most: int) -> None:
        """Keep so many."""
        self._values: deque[float] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> float | None:
        """Take in one more; the one that has to leave for it, if there is one."""
        oldest = self._values[0] if self.full else None
        self._values.append(value)
        return oldest

    def clear(self) -> None:
        self._values.clear()

    @property
    def full(self) -> bool:
        """Whether there are as many as are kept."""
        return len(self._values) == self._values.maxlen

    def median(self) -> float:
        """Half of the values are no more than this; not a number where there are none."""
        return statistics.median(self._values) if self._values else math.nan

    def spread(self) -> float:
        """The standard deviation, by the median absolute deviation."""
        return NORMAL * deviation(self._values)

    def quartiles(self) -> tuple[float, float]:
        """A quarter of the values is below the first, and a quarter above the second."""
        if len(self._values) < 2:
            return (self.median(), self.median())
        low, _, high = statistics.quantiles(self._values, n=4)
        return (low, high)


def deviation(values: Iterable[float]) -> float:
    """The median distance from the median; not a number where there are no values."""
    known = list(values)
    if not known:
        return math.nan
    middle = statistics.median(known)
    return statistics.median(abs(value - middle) for value in known)


def number(value: object) -> float | None:
    """The value where it is a number of any kind, NaN and infinities included."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def finite(value: object) -> float | None:
    known = number(value)
    return known if known is not None and math.isfinite(known) else None


def percent(share: float) -> str:
    """The share in words: `15 %`."""
    return f"{100 * share:.0f} %"
