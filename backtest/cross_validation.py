# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Predictions of rows by constants that never saw them.

Two ways here, by `data/split.csv`, which was recorded before anything was fitted: model sizes held
out within a group, and single rows held out. `unseen.py` holds out whole sources.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from backtest.fitting import Fitted, Term, errors
from backtest.groups import GROUPS, Group, fit_group, start_of
from backtest.rows import Row, timed_rows


@dataclass(frozen=True, slots=True)
class Prediction:
    """A row and what was predicted of it."""

    row: Row
    error: float

    @property
    def seconds(self) -> float:
        return self.row.seconds * (1 + self.error)


def held_out_sizes(groups: Iterable[Group] = GROUPS) -> list[Prediction]:
    """Every row, predicted by constants of its group that saw no model of its size."""
    return [found for group in groups for found in _held_out(group, lambda row: row.fold)]


def without_twins(groups: Iterable[Group] = GROUPS) -> list[Prediction]:
    """Rows that have a twin in another fold, predicted by constants that saw neither.

    A twin is a model of another name with the same layers, width and heads: Llama 2 70B and Llama 3
    70B. The split goes by name, so a twin may be in the fit. Folds without twins are left out.
    """
    every = (_held_out(group, lambda row: row.fold, with_twins=True) for group in groups)
    return [found for own in every for found in own]


def _dimensions(row: Row) -> tuple[int, int, int]:
    model = row.workload.model
    return model.layers, model.hidden_size, model.heads


def held_out_rows(group: Group) -> list[Prediction]:
    """Every row of a group, predicted by constants that saw all of the group but itself."""
    return _held_out(group, lambda row: int(row.id))


def held_out_fits(group: Group, terms: Sequence[Term] = ()) -> Iterator[tuple[list[Row], Fitted]]:
    """The rows of each fold that a group predicts, and a fit that saw no model of their sizes."""
    return _folds(group, lambda row: row.fold, terms=terms)


def _held_out(
    group: Group, part_of: Callable[[Row], int], *, with_twins: bool = False
) -> list[Prediction]:
    """Every row that a group predicts, by constants fitted to the other parts of it."""
    every = (predicted(*fold) for fold in _folds(group, part_of, with_twins=with_twins))
    return [found for own in every for found in own]


def _folds(
    group: Group,
    part_of: Callable[[Row], int],
    *,
    with_twins: bool = False,
    terms: Sequence[Term] = (),
) -> Iterator[tuple[list[Row], Fitted]]:
    """The rows of each part that a group predicts, and a fit to the other parts."""
    own = [row for row in timed_rows() if group.rows(row)]
    predictable = [row for row in own if group.predicts(row)]
    start = start_of(own)
    for part in sorted({part_of(row) for row in predictable}):
        scored = [row for row in predictable if part_of(row) == part]
        others = [row for row in own if part_of(row) != part]
        if with_twins:
            shapes = {_dimensions(row) for row in scored}
            strangers = [row for row in others if _dimensions(row) not in shapes]
            if len(strangers) == len(others):
                continue
            others = strangers
        yield scored, fit_group(group, others, start, terms)


def predicted(rows: Sequence[Row], fitted: Fitted) -> list[Prediction]:
    if not rows:
        return []
    wrong = errors(rows, [fitted.of(row) for row in rows])
    return [Prediction(row, float(error)) for row, error in zip(rows, wrong, strict=True)]
