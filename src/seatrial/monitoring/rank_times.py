# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A figure that every rank has, summed up so that its size does not grow with the ranks."""

import heapq
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KEPT = 8
"""Ranks that are named: as many as a node has GPUs, so that a slow node shows as a whole."""


@dataclass(frozen=True, slots=True)
class RankFigure:
    """The spread of one figure over the ranks, and who has the most of it."""

    least: float
    """The smallest."""
    median: float
    """Half of the ranks have no more."""
    most: float
    """The largest."""
    highest: tuple[tuple[int, float], ...] = ()
    """Rank and figure of the ranks with the most, the most first."""

    @property
    def skew(self) -> float:
        """How much the highest is above the median, as a share of it; 0 where there is none."""
        return self.most / self.median - 1 if self.median > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The figure as plain data, for an event."""
        highest = [[rank, _short(value)] for rank, value in self.highest]
        return {
            "least": _short(self.least),
            "median": _short(self.median),
            "most": _short(self.most),
            "highest": highest,
        }


def sum_up(values: Sequence[float], kept: int = KEPT) -> RankFigure:
    """The figure of ranks 0, 1, 2, ..."""
    return sum_up_named(enumerate(values), kept)


def sum_up_named(values: Iterable[tuple[int, float]], kept: int = KEPT) -> RankFigure:
    """The figure of the ranks given; what is no number is left out."""
    known = [(rank, value) for rank, value in values if math.isfinite(value)]
    if not known:
        return RankFigure(math.nan, math.nan, math.nan)
    alone = [value for _, value in known]
    # Of equal ranks the lower ones are named, so that the same figures give the same text.
    highest = heapq.nsmallest(kept, known, key=lambda pair: (-pair[1], pair[0]))
    return RankFigure(min(alone), statistics.median(alone), max(alone), tuple(highest))


def rank_figure(plain: object) -> RankFigure | None:
    """The figure from an event's plain data; none where it is something else."""
    if not isinstance(plain, Mapping):
        return None
    try:
        highest = tuple((int(rank), float(value)) for rank, value in plain.get("highest", ()))
        least, median, most = (float(plain[key]) for key in ("least", "median", "most"))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return RankFigure(least, median, most, highest)


def _short(value: float) -> float:
    """Six significant digits: a microsecond of a second, and a kilobyte of a gigabyte."""
    return float(f"{value:.6g}")
