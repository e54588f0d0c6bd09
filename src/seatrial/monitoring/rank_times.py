# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far each rank is behind the others, from summaries that name only the slowest ranks."""

import heapq
import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.monitoring.event_log import Event

KEPT = 8
"""Number of ranks to name: as many as a node has GPUs, so that a slow node is named completely."""


@dataclass(frozen=True, slots=True)
class RankFigure:
    """The distribution of a value over the ranks, and the ranks with the highest values."""

    least: float
    median: float
    most: float
    highest: tuple[tuple[int, float], ...] = ()
    """Rank and value of the highest ranks, highest first."""

    @property
    def skew(self) -> float:
        """How far the maximum is above the median, as a share of the median; 0 if that is 0."""
        return self.most / self.median - 1 if self.median > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for an event."""
        highest = [[rank, _short(value)] for rank, value in self.highest]
        return {
            "least": _short(self.least),
            "median": _short(self.median),
            "most": _short(self.most),
            "highest": highest,
        }


def sum_up(values: Sequence[float], kept: int = KEPT) -> RankFigure:
    """Summarise the values of ranks 0, 1, 2, ..."""
    return sum_up_named(enumerate(values), kept)


def sum_up_named(values: Iterable[tuple[int, float]], kept: int = KEPT) -> RankFigure:
    """Summarise the values of the given ranks; skip values that are not finite."""
    known = [(rank, value) for rank, value in values if math.isfinite(value)]
    if not known:
        return RankFigure(math.nan, math.nan, math.nan)
    alone = [value for _, value in known]
    # Of equal ranks, name the lower ones, so that equal values give equal output.
    highest = heapq.nsmallest(kept, known, key=lambda pair: (-pair[1], pair[0]))
    return RankFigure(min(alone), statistics.median(alone), max(alone), tuple(highest))


def rank_figure(plain: object) -> RankFigure | None:
    """Parse an event's plain data. Return None if the data has a different shape."""
    if not isinstance(plain, Mapping):
        return None
    try:
        highest = tuple((int(rank), float(value)) for rank, value in plain.get("highest", ()))
        least, median, most = (float(plain[key]) for key in ("least", "median", "most"))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return RankFigure(least, median, most, highest)


def _short(value: float) -> float:
    """Round to six significant digits: a microsecond in a second, a kilobyte in a gigabyte."""
    return float(f"{value:.6g}")


def lags(seconds: Sequence[float], stages: Sequence[int]) -> list[float]:
    """Return, for each rank, how much slower it is than the median of the others in its stage.

    Pipeline stages are compared separately: in a healthy pipeline, the first is busy longest,
    because its backward passes come last. A rank that is alone in its stage gets NaN.
    """
    groups: dict[int, list[int]] = defaultdict(list)
    for rank, stage in enumerate(stages):
        groups[stage].append(rank)
    found = [math.nan] * len(seconds)
    for ranks in groups.values():
        ordered = sorted(ranks, key=lambda rank: seconds[rank])
        values = [seconds[rank] for rank in ordered]
        for place, rank in enumerate(ordered):
            usual = _median_without(place, values)
            if usual > 0:
                found[rank] = seconds[rank] / usual - 1
    return found


def _median_without(place: int, ordered: Sequence[float]) -> float:
    """Return the median of sorted values without the one at `place`; 0 if there is no other."""
    left = len(ordered) - 1
    if left == 0:
        return 0.0

    def value(index: int) -> float:
        return ordered[index if index < place else index + 1]

    return value(left // 2) if left % 2 else (value(left // 2 - 1) + value(left // 2)) / 2


RECENT = 20
"""Summaries that a rank's lag is averaged over: a straggler is named within as many steps."""


@dataclass(frozen=True, slots=True)
class RankLag:
    """Recent lags of the ranks."""

    ranks: int
    """Number of ranks in the run."""
    lags: dict[int, float]
    """Lag of each named rank relative to the median rank, as a share of the median."""
    others: float
    """Upper bound for the lag of a rank that was never named."""
    figure: RankFigure

    @property
    def slowest(self) -> tuple[int, float] | None:
        """The rank with the largest mean lag, and that lag."""
        if not self.lags:
            return None
        return max(self.lags.items(), key=lambda pair: (pair[1], -pair[0]))

    def cells(self, most: int) -> tuple[list[float], int]:
        """Return the lags of at most `most` groups of adjacent ranks, and the size of a group.

        A group's lag is that of its slowest rank. Sizes are powers of two, as on nodes.
        """
        size = 1
        while -(-self.ranks // size) > most:
            size *= 2
        cells = [0.0] * -(-self.ranks // size)
        for rank, lag in self.lags.items():
            if 0 <= rank < self.ranks:
                cells[rank // size] = max(cells[rank // size], lag)
        return cells, size


class RankLags:
    """Aggregates summaries of ranks; memory does not grow with ranks or steps."""

    def __init__(self, recent: int = RECENT) -> None:
        self._recent: deque[RankFigure] = deque(maxlen=recent)
        self._ranks = 0

    def start(self, ranks: object) -> None:
        """Handle a start with this number of ranks, if it is known."""
        if isinstance(ranks, int) and ranks > 0:
            self._ranks = ranks
        self._recent.clear()

    def take(self, event: Event) -> None:
        """Add the summary of a step."""
        figure = rank_figure(event.values.get("busy"))
        if figure is not None and figure.median > 0:
            self._recent.append(figure)

    @property
    def newest(self) -> RankFigure | None:
        """The newest summary; None if the log has none."""
        return self._recent[-1] if self._recent else None

    def now(self) -> RankLag | None:
        """Return the recent lags; None if the log has no summaries."""
        newest = self.newest
        if newest is None:
            return None
        sums: dict[int, float] = {}
        for figure in self._recent:
            for rank, seconds in figure.highest:
                sums[rank] = sums.get(rank, 0.0) + seconds / figure.median - 1
        # A rank that was not named counts as the median: it was not slower than the named ones.
        lags = {rank: max(0.0, total / len(self._recent)) for rank, total in sums.items()}
        others = newest.highest[-1][1] / newest.median - 1 if newest.highest else 0.0
        ranks = max(self._ranks, 1 + max(lags, default=0))
        return RankLag(ranks, lags, max(0.0, others), newest)
