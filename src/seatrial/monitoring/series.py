# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A curve of bounded size: adjacent points are merged as the run grows."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One or more steps of a curve."""

    step: int
    mean: float
    """Mean of the finite values; NaN if there are none."""
    least: float
    most: float
    """The maximum, which preserves a spike when points are merged."""
    count: int
    """Number of finite values."""
    missing: int = 0
    """Number of NaN and infinite values, which a mean would hide."""


class Series:
    """Takes values in the order of steps. A replayed step adds a new point."""

    def __init__(self, most: int = 1024) -> None:
        """Keep at most `most` points (an even number)."""
        self._most = most
        self._width = 1
        self._points: list[Point] = []
        self._taken = 0

    def take(self, step: int, value: float) -> None:
        finite = math.isfinite(value)
        point = (
            Point(step, value, value, value, 1)
            if finite
            else Point(step, math.nan, math.nan, math.nan, 0, 1)
        )
        if self._taken % self._width == 0:
            self._points.append(point)
        else:
            self._points[-1] = _joined(self._points[-1], point)
        self._taken += 1
        if len(self._points) > self._most:
            pairs = zip(self._points[::2], [*self._points[1::2], None], strict=False)
            self._points = [one if two is None else _joined(one, two) for one, two in pairs]
            self._width *= 2
            # The last point is alone after merging, and later values are still merged into it.
            self._taken = (len(self._points) - 1) * self._width + self._width // 2

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(self._points)


def _joined(one: Point, two: Point) -> Point:
    """Merge two adjacent points."""
    missing = one.missing + two.missing
    if not one.count or not two.count:
        known = one if one.count else two
        return Point(two.step, known.mean, known.least, known.most, known.count, missing)
    count = one.count + two.count
    mean = (one.mean * one.count + two.mean * two.count) / count
    return Point(two.step, mean, min(one.least, two.least), max(one.most, two.most), count, missing)
