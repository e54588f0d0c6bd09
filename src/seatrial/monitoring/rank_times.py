# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far each rank is behind the others, from figures that name only the slowest."""

import heapq
import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.monitoring.event_log import Event

KEPT = 8
"""Ranks that are named: as many as a node has GPUs, so that a slow node shows as a whole."""


@dataclass(frozen=True, slots=True)
class RankFigure:
    """The spread of one figure over the ranks, and who has the most of it."""

    least: float
    median: float
    """Half of the ranks have no more."""
    most: float
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


def lags(seconds: Sequence[float], stages: Sequence[int]) -> list[float]:
    """For each rank, by what share it is slower than the median of the others of its stage.

    Pipeline stages are apart: in a healthy pipeline the first is busy longest, for its backward
    passes come last. A rank that is alone in its stage has nobody to be compared with.
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
    """The median of ordered values without the one at that place; 0 where there is no other."""
    left = len(ordered) - 1
    if left == 0:
        return 0.0

    def value(index: int) -> float:
        return ordered[index if index < place else index + 1]

    return value(left // 2) if left % 2 else (value(left // 2 - 1) + value(left // 2)) / 2


RECENT = 20
"""Figures that a rank's lag is the mean of: as many steps as a straggler is named within."""


@dataclass(frozen=True, slots=True)
class RankLag:
    """How the ranks stand to each other of late."""

    ranks: int
    """Ranks of the run."""
    lags: dict[int, float]
    """How much more than the median rank those take that were named, as a share of the median."""
    others: float
    """What the lag of a rank that was never named is at most."""
    figure: RankFigure

    @property
    def slowest(self) -> tuple[int, float] | None:
        """The rank with the largest mean lag, and that."""
        if not self.lags:
            return None
        return max(self.lags.items(), key=lambda pair: (pair[1], -pair[0]))

    def cells(self, most: int) -> tuple[list[float], int]:
        """The lag of groups of neighbouring ranks, at most so many, and ranks of a group.

        A group is as slow as its slowest rank. Groups are powers of two, as nodes are.
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
    """Takes figures of ranks; what it remembers does not grow with ranks or steps."""

    def __init__(self, recent: int = RECENT) -> None:
        """Begin before the first figure."""
        self._recent: deque[RankFigure] = deque(maxlen=recent)
        self._ranks = 0

    def start(self, ranks: object) -> None:
        """Processes came up, so many of them as far as they say."""
        if isinstance(ranks, int) and ranks > 0:
            self._ranks = ranks
        self._recent.clear()

    def take(self, event: Event) -> None:
        """Take in the figures of a step."""
        figure = rank_figure(event.values.get("busy"))
        if figure is not None and figure.median > 0:
            self._recent.append(figure)

    @property
    def newest(self) -> RankFigure | None:
        """The newest figure; None where no log tells."""
        return self._recent[-1] if self._recent else None

    def now(self) -> RankLag | None:
        """How the ranks stand; None where no log tells."""
        newest = self.newest
        if newest is None:
            return None
        sums: dict[int, float] = {}
        for figure in self._recent:
            for rank, seconds in figure.highest:
                sums[rank] = sums.get(rank, 0.0) + seconds / figure.median - 1
        # Where it was not named, a rank counts as the median: that it was not slower is known.
        lags = {rank: max(0.0, total / len(self._recent)) for rank, total in sums.items()}
        others = newest.highest[-1][1] / newest.median - 1 if newest.highest else 0.0
        ranks = max(self._ranks, 1 + max(lags, default=0))
        return RankLag(ranks, lags, max(0.0, others), newest)
