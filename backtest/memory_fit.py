# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fitting the memory model's constants: few of them, near what the stack's own source says.

Every constant that is fitted starts from a value derived from the stack's source code or from
arXiv 2205.05198, with a width: how far it may be off. The fit weighs the rows against that, so
that a handful of rows moves only what they speak about.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import copysign, exp, log, log1p, sqrt

from scipy.optimize import least_squares, minimize

from backtest.memory_rows import Measured, MeasuredRow, OutcomeRow, Which
from seatrial.planning.memory.breakdown import StageMemory
from seatrial.planning.memory.constants import StackConstants
from seatrial.planning.memory.estimate import deciding_stages, stages_of

ROW_WIDTH = 0.03
"""Relative scatter of a published figure around a good model."""
VERDICT_WIDTH = 0.03
"""The same for an outcome: how far from the GPU's memory it is still a coin's toss."""
MOST_LOGIT = 30.0
"""Beyond this the curve is a straight line, and its exponential needless."""


@dataclass(frozen=True, slots=True)
class Free:
    name: str
    start: float
    width: float
    low: float = 0.0


def fullest(row: MeasuredRow | OutcomeRow, known: StackConstants) -> StageMemory:
    stages = stages_of(row.workload, known, deciding_stages(row.workload))
    return max(stages, key=lambda stage: stage.total)


def predicted(row: MeasuredRow, known: StackConstants) -> float:
    if row.which is Which.LAST:
        stage = stages_of(row.workload, known, (row.workload.layout.pp_size - 1,))[0]
    else:
        stage = fullest(row, known)
    if row.measured is Measured.ALLOCATED:
        return float(stage.allocated)
    if row.measured is Measured.RESERVED:
        return float(stage.total - stage.communication)
    return float(stage.total)


def fit_figures(
    rows: Sequence[MeasuredRow], base: StackConstants, free: Sequence[Free]
) -> StackConstants:
    """The constants nearest to figures of memory; outliers count less than their square."""

    def residuals(point: Sequence[float]) -> list[float]:
        known = _at(base, free, point)
        # The square root of a pseudo-Huber loss, so that the prior keeps its square.
        offs = (log(predicted(row, known) / row.memory) / ROW_WIDTH for row in rows)
        robust = (copysign(sqrt(2 * (sqrt(1 + off * off) - 1)), off) for off in offs)
        return [*robust, *(float(step) for step in point)]

    found = least_squares(residuals, [0.0] * len(free), diff_step=1e-3, xtol=1e-4, ftol=1e-4)
    return _at(base, free, found.x)


def fit_outcomes(
    rows: Sequence[OutcomeRow],
    base: StackConstants,
    free: Sequence[Free],
    variants: Callable[[StackConstants], dict[str, StackConstants]],
) -> dict[str, StackConstants]:
    """The constants that tell best what fitted, as the likelihood of a logistic curve."""

    def loss(point: Sequence[float]) -> float:
        stacks = variants(_at(base, free, point))
        total = sum(float(step) ** 2 for step in point)
        for row in rows:
            need = fullest(row, stacks[row.workload.stack]).total
            off = log(need / row.workload.hardware.memory_bytes) / VERDICT_WIDTH
            off = off if row.fitted else -off
            total += off if off > MOST_LOGIT else log1p(exp(off))
        return total

    options = {"eps": 1e-3, "ftol": 1e-4, "maxiter": 30}
    found = minimize(loss, [0.0] * len(free), method="L-BFGS-B", options=options)
    return variants(_at(base, free, found.x))


def _at(base: StackConstants, free: Sequence[Free], point: Sequence[float]) -> StackConstants:
    """The constants so many widths away from where the sources put them."""
    values = {
        one.name: max(one.low, one.start + one.width * float(step))
        for one, step in zip(free, point, strict=True)
    }
    return replace(base, **values)
