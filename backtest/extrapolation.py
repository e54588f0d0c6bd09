# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How errors grow beyond the range of what was fitted.

Of every large group, the rows up to a quarter of its largest run are fitted, model sizes held out
as ever, and the larger runs are predicted. How much worse they are predicted than the smaller ones,
per doubling, is what the planner widens its error by beyond the largest fitted value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2
from statistics import median

import numpy as np

from backtest.cross_validation import Prediction, predicted
from backtest.groups import GROUPS, Group, fit_group, start_of
from backtest.rows import Row, timed_rows

SMALLER = 4
"""The largest run over the largest that is fitted."""
CAUTION = 0.75
"""Share of the groups whose errors grow no faster than the planner assumes."""
FEWEST = 10
"""Rows that must be on either side of the cut."""

Measure = Callable[[Row], int]
MEASURES: tuple[tuple[str, Measure], ...] = (
    ("GPUs", lambda row: row.workload.layout.world_size),
    ("pipeline stages", lambda row: row.workload.layout.pp_size),
)


@dataclass(frozen=True, slots=True)
class Extrapolation:
    """How well the larger runs of a group are predicted by its smaller ones."""

    group: str
    measure: str
    fitted_up_to: int
    rows: int
    within: float
    beyond: float
    doublings: float
    """How often the largest fitted value doubles to reach the median row beyond it."""

    @property
    def per_doubling(self) -> float:
        return float((self.beyond / self.within) ** (1 / self.doublings))


def extrapolations(groups: Sequence[Group] = GROUPS) -> list[Extrapolation]:
    """Every group and measure with enough rows on either side of the cut."""
    found = []
    for group in groups:
        own = [row for row in timed_rows() if group.rows(row)]
        if len(own) == sum(map(group.predicts, own)):
            found += [item for name, of in MEASURES if (item := _cut(group, own, name, of))]
    return found


def widening(found: Sequence[Extrapolation]) -> float:
    """The factor that the planner takes for every doubling: the upper quartile, and at least 1.

    Not the median: in some groups the small runs are the odd ones, and their error shrinks with
    size. That says nothing of what a run larger than all will meet.
    """
    return max(1.0, float(np.quantile([item.per_doubling for item in found], CAUTION)))


def _cut(group: Group, own: Sequence[Row], name: str, of: Measure) -> Extrapolation | None:
    """What the rows below the cut say of those above, and of each other."""
    cut = max(map(of, own)) / SMALLER
    small = [row for row in own if of(row) <= cut]
    large = [row for row in own if of(row) > cut]
    if min(len(small), len(large)) < FEWEST:
        return None
    start = start_of(own)
    within: list[Prediction] = []
    beyond: list[Prediction] = []
    for part in sorted({row.fold for row in own}):
        fitted = fit_group(group, [row for row in small if row.fold != part], start)
        within += predicted([row for row in small if row.fold == part], fitted)
        beyond += predicted([row for row in large if row.fold == part], fitted)
    largest = max(map(of, small))
    return Extrapolation(
        group=f"{group.stack}: {own[0].source}",
        measure=name,
        fitted_up_to=largest,
        rows=len(large),
        within=median(abs(item.error) for item in within),
        beyond=median(abs(item.error) for item in beyond),
        doublings=median(log2(of(row) / largest) for row in large),
    )
