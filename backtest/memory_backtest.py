# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Score the memory model: every published row by constants fitted to other model sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from backtest import memory_ci, memory_sources
from backtest.memory_fit import fit_figures, fit_outcomes, fullest, predicted
from backtest.memory_rows import MeasuredRow, OutcomeRow
from backtest.memory_stacks import (
    DEEPSPEED_BF16,
    DEEPSPEED_FP16,
    MEGATRON_CORE,
    NANOTRON,
    SCALING,
    Stack,
    scaling_variants,
)
from backtest.unseen import below
from seatrial.planning.memory.constants import StackConstants

VERDICT_ERROR = 0.05
"""The error bar of a verdict where only outcomes were published: the bar on figures."""
MOST_LIKELY = 0.9
"""The share of held-out rows that an error bar covers."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One row with what the model said of it."""

    row: MeasuredRow
    ratio: float

    @property
    def error(self) -> float:
        return abs(self.ratio - 1)


@dataclass(frozen=True, slots=True)
class Judged:
    """One outcome with what the model said of it."""

    row: OutcomeRow
    ratio: float

    @property
    def risky(self) -> bool:
        return self.ratio * (1 - VERDICT_ERROR) <= 1 < self.ratio * (1 + VERDICT_ERROR)

    @property
    def missed(self) -> bool:
        """Whether it was said to fit, and did not."""
        return not self.risky and self.ratio <= 1 and not self.row.fitted

    @property
    def false(self) -> bool:
        """Whether it was said not to fit, and did."""
        return not self.risky and self.ratio > 1 and self.row.fitted


@cache
def megatron_ci() -> tuple[Scored, ...]:
    return held_out(memory_ci.rows(), MEGATRON_CORE)


@cache
def _dense() -> StackConstants:
    """The constants of megatron-core, fitted to all of Megatron's own tests of dense models."""
    return fit_figures(memory_ci.rows(), MEGATRON_CORE.base, MEGATRON_CORE.free)


def never_fitted(rows: Sequence[MeasuredRow]) -> tuple[Scored, ...]:
    """Rows by the constants of megatron-core, which saw none of them."""
    return tuple(Scored(row, predicted(row, _dense()) / row.memory) for row in rows)


@cache
def megatron_ci_experts() -> tuple[Scored, ...]:
    return never_fitted(memory_ci.expert_rows())


@cache
def nanotron() -> tuple[Scored, ...]:
    return held_out(memory_sources.nanotron_rows(), NANOTRON)


@cache
def bloom(stack: Stack) -> tuple[Scored, ...]:
    return held_out(memory_sources.bloom_rows(stack.name), stack)


def bloom_rows() -> tuple[Scored, ...]:
    return bloom(DEEPSPEED_FP16) + bloom(DEEPSPEED_BF16)


@cache
def layouts() -> tuple[Judged, ...]:
    """AlephAlpha's sweep, by constants fitted to the other two model sizes."""
    rows = memory_sources.layout_rows()
    judged: list[Judged] = []
    for fold in sorted({row.fold for row in rows}):
        stacks = fitted_scaling([row for row in rows if row.fold != fold])
        judged += [
            Judged(row, need(row, stacks[row.workload.stack])) for row in rows if row.fold == fold
        ]
    return tuple(judged)


@cache
def bloom_outcomes() -> tuple[Judged, ...]:
    """BLOOM's runs that did not fit, by constants fitted to other model sizes."""
    judged = []
    for row in memory_sources.bloom_outcomes():
        stack = DEEPSPEED_BF16 if row.workload.stack == DEEPSPEED_BF16.name else DEEPSPEED_FP16
        same = memory_sources.bloom_rows(stack.name)
        others = [other for other in same if other.fold != row.fold]
        judged.append(Judged(row, need(row, fit_figures(others, stack.base, stack.free))))
    return tuple(judged)


def fitted_scaling(rows: Sequence[OutcomeRow]) -> dict[str, StackConstants]:
    """The constants of AlephAlpha's framework, per set of kernels."""
    return fit_outcomes(rows, SCALING.base, SCALING.free, scaling_variants)


def need(row: OutcomeRow, known: StackConstants) -> float:
    return fullest(row, known).total / row.workload.hardware.memory_bytes


def held_out(rows: Sequence[MeasuredRow], stack: Stack) -> tuple[Scored, ...]:
    """Each row by constants fitted to the rows of other folds."""
    scored: list[Scored] = []
    for fold in sorted({row.fold for row in rows}):
        others = [row for row in rows if row.fold != fold]
        known = fit_figures(others, stack.base, stack.free)
        scored += [
            Scored(row, predicted(row, known) / row.memory) for row in rows if row.fold == fold
        ]
    return tuple(scored)


def middle(scored: Sequence[Scored]) -> float:
    return median(one.error for one in scored)


def most(scored: Sequence[Scored]) -> float:
    """The error that nine of ten rows stay below."""
    return sorted(one.error for one in scored)[int(MOST_LIKELY * len(scored))]


@cache
def borrowed() -> dict[str, tuple[Scored, ...]]:
    """The figures of every other stack, by the constants of megatron-core.

    As they would be predicted of a stack that the planner has no constants for.
    """
    found = {NANOTRON.name: never_fitted(memory_sources.nanotron_rows())}
    for stack in (DEEPSPEED_FP16, DEEPSPEED_BF16):
        found[stack.name] = never_fitted(memory_sources.bloom_rows(stack.name))
    return found | {
        f"{memory_sources.TORCHTITAN}, FSDP": never_fitted(memory_sources.torchtitan_rows())
    }


def borrowed_error() -> float:
    """The error that nine of ten of these figures stay below, where every stack counts the same."""
    return below([[one.error for one in own] for own in borrowed().values()], MOST_LIKELY)
