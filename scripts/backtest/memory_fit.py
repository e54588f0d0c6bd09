# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fitting the memory model's constants: few of them, near what the stack's own source says.

Every constant that is fitted starts from a value derived from the stack's source code or from
arXiv 2205.05198, with a width: how far it may be off. The fit weighs the rows against that, so
that a handful of rows moves only what they speak about.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from scipy.optimize import minimize

from scripts.backtest.memory_rows import Measured, MeasuredRow, OutcomeRow, Which
from seatrial.planning.memory.constants import StackConstants
from seatrial.planning.memory.estimate import deciding_stages, stages_of
from seatrial.planning.memory.parts import StageMemory

ROW_WIDTH = 0.03
"""Relative scatter of a published figure around a good model."""
VERDICT_WIDTH = 0.03
"""The same for an outcome: how far from the GPU's memory it is still a coin's toss."""


@dataclass(frozen=True, slots=True)
class Free:
    """A constant that is fitted."""

    name: str
    """Field of the constants."""
    start: float
    """What the source says."""
    width: float
    """How far it may be off."""
    low: float = 0.0
    """Least value that makes sense."""


def fullest(row: MeasuredRow | OutcomeRow, known: StackConstants) -> StageMemory:
    """The stage that needs most."""
    stages = stages_of(row.workload, known, deciding_stages(row.workload))
    return max(stages, key=lambda stage: stage.total)


def predicted(row: MeasuredRow, known: StackConstants) -> float:
    """What the model says for what was measured."""
    if row.which is Which.LAST:
        stage = stages_of(row.workload, known, (row.workload.layout.pp_size - 1,))[0]
    else:
        stage = fullest(row, known)
    return float(stage.allocated if row.measured is Measured.ALLOCATED else stage.total)


def fit_figures(
    rows: Sequence[MeasuredRow], base: StackConstants, free: Sequence[Free]
) -> StackConstants:
    """The constants nearest to figures of memory; outliers count less than their square."""

    def loss(known: StackConstants) -> float:
        total = 0.0
        for row in rows:
            off = log(predicted(row, known) / row.memory) / ROW_WIDTH
            total += 2 * ((1 + off * off) ** 0.5 - 1)
        return total

    return _minimised(loss, base, free)


def fit_outcomes(
    rows: Sequence[OutcomeRow],
    base: dict[str, StackConstants],
    free: Sequence[Free],
    variants: Callable[[StackConstants], dict[str, StackConstants]],
) -> dict[str, StackConstants]:
    """The constants that tell best what fitted, as the likelihood of a logistic curve."""
    first = next(iter(base.values()))

    def loss(known: StackConstants) -> float:
        stacks = variants(known)
        total = 0.0
        for row in rows:
            need = fullest(row, stacks[row.workload.stack]).total
            off = log(need / row.workload.hardware.memory_bytes) / VERDICT_WIDTH
            off = off if row.fitted else -off
            total += off if off > 30 else log(1 + exp(off))
        return total

    return variants(_minimised(loss, first, free))


def _minimised(
    loss: Callable[[StackConstants], float], base: StackConstants, free: Sequence[Free]
) -> StackConstants:
    """The constants of least loss, prior included, by a simplex search."""

    def constants(point: Sequence[float]) -> StackConstants:
        values = {
            one.name: max(one.low, one.start + one.width * float(step))
            for one, step in zip(free, point, strict=True)
        }
        return replace(base, **values)

    def objective(point: Sequence[float]) -> float:
        return loss(constants(point)) + sum(float(step) ** 2 for step in point)

    found = minimize(
        objective,
        [0.0] * len(free),
        method="Powell",
        options={"xtol": 1e-3, "ftol": 1e-5, "maxiter": 40},
    )
    return constants(found.x)
