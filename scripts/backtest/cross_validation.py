# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Predictions of rows by constants that never saw them.

Three ways, all by `data/split.csv`, which was recorded before anything was fitted: model sizes held
out within a group, single rows held out, and whole sources held out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scripts.backtest.fitting import Fitted, errors
from scripts.backtest.groups import GROUPS, Group, fit_group, fit_pool, start_of
from scripts.backtest.rows import Row, timed_rows
from seatrial.planning.calibration import factor

FEWEST_UNSEEN = 5
"""Rows that a source needs to be scored as an unseen one."""
FEWEST_CALIBRATION = 3
"""Calibration rows that can be predicted, of the five that the split names."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A row and what was predicted of it."""

    row: Row
    """The row."""
    error: float
    """Predicted over measured time, less one."""

    @property
    def seconds(self) -> float:
        """The predicted time."""
        return self.row.seconds * (1 + self.error)


def held_out_sizes(groups: Iterable[Group] = GROUPS) -> list[Prediction]:
    """Every row, predicted by constants of its group that saw no model of its size."""
    return [found for group in groups for found in _held_out(group, lambda row: row.fold)]


def held_out_rows(group: Group) -> list[Prediction]:
    """Every row of a group, predicted by constants that saw all of the group but itself."""
    return _held_out(group, lambda row: int(row.id))


def _held_out(group: Group, part_of: Callable[[Row], int]) -> list[Prediction]:
    """Every row that a group predicts, by constants fitted to the other parts of it."""
    own = [row for row in timed_rows() if group.rows(row)]
    scored = [row for row in own if group.predicts(row)]
    start = start_of(own)
    found: list[Prediction] = []
    for part in sorted({part_of(row) for row in scored}):
        fitted = fit_group(group, [row for row in own if part_of(row) != part], start)
        found += predicted([row for row in scored if part_of(row) == part], fitted)
    return found


def predicted(rows: Sequence[Row], fitted: Fitted) -> list[Prediction]:
    """What fitted rates say of rows."""
    if not rows:
        return []
    wrong = errors(rows, [fitted.of(row) for row in rows])
    return [Prediction(row, float(error)) for row, error in zip(rows, wrong, strict=True)]


@dataclass(frozen=True, slots=True)
class UnseenSource:
    """How well a source is predicted of which nothing was fitted."""

    source: str
    """The source."""
    rows: int
    """Its rows."""
    median: float
    """Median relative error."""
    calibrated: float | None
    """The same after a calibration on its calibration rows, which are not scored; nothing where
    it has too few rows for one."""


def unseen_sources() -> list[UnseenSource]:
    """Every source of enough rows, predicted by what all others say."""
    everything = timed_rows()
    found = []
    for source in dict.fromkeys(row.source for row in everything):
        own = [row for row in everything if row.source == source]
        if len(own) < FEWEST_UNSEEN:
            continue
        found.append(unseen(source, predicted(own, fit_pool(frozenset([source])))))
    return found


def unseen(source: str, found: Sequence[Prediction]) -> UnseenSource:
    """The errors of a source, before and after the planner's own calibration."""
    seen = [item.error for item in found if item.row.calibration]
    rest = np.array([item.error for item in found if not item.row.calibration])
    calibrated = None
    if len(seen) >= FEWEST_CALIBRATION:
        scale = factor([1 / (1 + error) for error in seen])
        calibrated = float(np.median(np.abs((1 + rest) * scale - 1)))
    whole = float(np.median([abs(item.error) for item in found]))
    return UnseenSource(source, len(found), whole, calibrated)
