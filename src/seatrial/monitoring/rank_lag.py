# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far each rank is behind the others, from figures that name only the slowest."""

from collections import deque
from dataclasses import dataclass

from seatrial.monitoring.event_log import Event
from seatrial.monitoring.rank_times import RankFigure, rank_figure

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
    """The newest figure."""

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

    def now(self) -> RankLag | None:
        """How the ranks stand; nothing where no log tells."""
        if not self._recent:
            return None
        sums: dict[int, float] = {}
        for figure in self._recent:
            for rank, seconds in figure.highest:
                sums[rank] = sums.get(rank, 0.0) + seconds / figure.median - 1
        # Where it was not named, a rank counts as the median: that it was not slower is known.
        lags = {rank: max(0.0, total / len(self._recent)) for rank, total in sums.items()}
        newest = self._recent[-1]
        others = newest.highest[-1][1] / newest.median - 1 if newest.highest else 0.0
        ranks = max(self._ranks, 1 + max(lags, default=0))
        return RankLag(ranks, lags, max(0.0, others), newest)
