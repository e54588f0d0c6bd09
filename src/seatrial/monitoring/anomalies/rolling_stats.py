# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Medians over the newest values, which are robust against outliers."""

import math
import statistics
from collections import deque
from collections.abc import Iterable

NORMAL = 1.4826
"""Standard deviation of normal values, as a multiple of their median absolute deviation."""


class Recent:
    """The newest values and their statistics."""

    def __init__(self, most: int) -> None:
        self._values: deque[float] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> float | None:
        """Add a value. Return the one that it displaces, if any."""
        oldest = self._values[0] if self.full else None
        self._values.append(value)
        return oldest

    def clear(self) -> None:
        self._values.clear()

    @property
    def full(self) -> bool:
        """True if the window is full."""
        return len(self._values) == self._values.maxlen

    def median(self) -> float:
        """Return the median; NaN if there are no values."""
        return statistics.median(self._values) if self._values else math.nan

    def spread(self) -> float:
        """Estimate the standard deviation from the median absolute deviation."""
        return NORMAL * deviation(self._values)

    def quartiles(self) -> tuple[float, float]:
        """Return the first and the third quartile."""
        if len(self._values) < 2:
            return (self.median(), self.median())
        low, _, high = statistics.quantiles(self._values, n=4)
        return (low, high)


def deviation(values: Iterable[float]) -> float:
    """Return the median absolute deviation; NaN if there are no values."""
    known = list(values)
    if not known:
        return math.nan
    middle = statistics.median(known)
    return statistics.median(abs(value - middle) for value in known)


def number(value: object) -> float | None:
    """Return the value if it is a number, including NaN and infinities."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def finite(value: object) -> float | None:
    known = number(value)
    return known if known is not None and math.isfinite(known) else None


def percent(share: float) -> str:
    """Format a share: `15 %`."""
    return f"{100 * share:.0f} %"
