# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare two training runs of one model in different layouts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from seatrial.engine_process.process import TrainingOutcome
from seatrial.spec.training import Precision


@dataclass(frozen=True, slots=True)
class ParityBar:
    """The largest relative differences that rounding explains."""

    loss: float
    norm: float
    rerouted: float
    """The share of tokens that may change their expert in the first step in which one does."""


FP32_BAR = ParityBar(loss=1e-6, norm=1e-5, rerouted=0.01)
"""Correct layouts differ by at most 2e-7 in the loss and 6e-7 in the gradient norm."""
HALF_BAR = ParityBar(loss=5e-4, norm=1e-2, rerouted=0.1)
"""For half precision: correct layouts differ by at most 3e-5 in the loss and 1e-3 in the norm."""


def bar_of(precision: Precision) -> ParityBar:
    return FP32_BAR if precision is Precision.FP32 else HALF_BAR


@dataclass(frozen=True, slots=True)
class RunDifference:
    """The largest relative differences over some steps."""

    loss: float
    norm: float | None
    """None if the engine reports no gradient norms."""

    def within(self, bar: ParityBar) -> bool:
        return self.loss <= bar.loss and (self.norm is None or self.norm <= bar.norm)

    def __str__(self) -> str:
        """Format the differences as the end of a sentence about two runs."""
        norms = "" if self.norm is None else f", gradient norms by {self.norm:.0e}"
        return f"losses differ by {self.loss:.0e}{norms}"


REROUTED_LOSS = 0.05
"""Largest relative difference of a loss that tokens which changed their expert can explain."""


@dataclass(frozen=True, slots=True)
class Rerouting:
    """The first step in which experts process different numbers of tokens in the two runs."""

    step: int
    moved: int
    """How many tokens changed their expert."""
    routed: int
    """How many tokens the experts processed."""

    def within(self, bar: ParityBar) -> bool:
        return self.moved <= max(1, bar.rerouted * self.routed)

    def words(self, bar: ParityBar) -> str:
        """Format the change, such as `one token changed its expert at step 9`."""
        if not self.within(bar):
            return (
                f"{self.moved:,} of {self.routed:,} tokens changed their expert at step "
                f"{self.step}, more than rounding explains"
            )
        who = "one token changed its" if self.moved == 1 else f"{self.moved} tokens changed their"
        return f"{who} expert at step {self.step}"


@dataclass(frozen=True, slots=True)
class Parity:
    """How two runs compare.

    A token whose top experts are nearly equal may change its expert because of rounding. It
    explains differences from its step on. The bar holds for the steps before.
    """

    before: RunDifference | None
    """The differences before the first change of an expert; None if there are no such steps."""
    after: RunDifference | None = None
    """The differences from that step on; None if no token changed its expert."""
    rerouting: Rerouting | None = None

    def holds(self, bar: ParityBar) -> bool:
        """True if rounding, and tokens that changed their expert, explain the differences."""
        few = self.rerouting is None or self.rerouting.within(bar)
        near = self.after is None or self.after.loss <= REROUTED_LOSS
        return few and near and (self.before is None or self.before.within(bar))

    def is_conclusive(self, bar: ParityBar) -> bool:
        """True unless tokens that changed their expert hide whether the layouts agree."""
        return not self.holds(bar) or self.after is None or self.after.within(bar)

    def words(self, bar: ParityBar) -> str:
        """Format the comparison."""
        if self.rerouting is None or self.after is None:
            return str(self.before)
        change = self.rerouting.words(bar)
        if self.before is None:
            return f"{change}, the first step compared: {self.after}"
        if self.after.within(bar) and self.before.within(bar):
            return f"{_largest(self.before, self.after)}; {change}"
        return f"{self.before} until {change}; from then on {self.after}"


def compare(one: TrainingOutcome, other: TrainingOutcome) -> Parity:
    """Compare the steps that both runs have."""
    steps = sorted(one.steps().keys() & other.steps().keys())
    first = next(filter(None, (_rerouting(one, other, step) for step in steps)), None)
    if first is None:
        return Parity(_difference(one, other, steps))
    before = [step for step in steps if step < first.step]
    after = [step for step in steps if step >= first.step]
    return Parity(
        _difference(one, other, before) if before else None, _difference(one, other, after), first
    )


def largest_difference(one: dict[int, float], other: dict[int, float]) -> float:
    """Return the largest relative difference, or infinity if a value is not finite or missing."""
    pairs = [(one[step], other[step]) for step in one.keys() & other.keys()]
    differences = [0.0 if a == b else abs(a - b) / abs(a or b) for a, b in pairs]
    return max((d if math.isfinite(d) else math.inf for d in differences), default=math.inf)


def _difference(
    one: TrainingOutcome, other: TrainingOutcome, steps: Iterable[int]
) -> RunDifference:
    chosen = tuple(steps)
    losses = [{step: run.losses()[step] for step in chosen} for run in (one, other)]
    norms = [_norms(run, chosen) for run in (one, other)]
    missing = any(len(found) < len(chosen) for found in norms)
    return RunDifference(
        largest_difference(*losses), None if missing else largest_difference(*norms)
    )


def _norms(run: TrainingOutcome, steps: Iterable[int]) -> dict[int, float]:
    """Return the gradient norms of the steps that have one."""
    found = {step: run.steps()[step].values.get("grad_norm") for step in steps}
    return {step: norm for step, norm in found.items() if norm is not None}


def _rerouting(one: TrainingOutcome, other: TrainingOutcome, step: int) -> Rerouting | None:
    """Return the change of experts in a step; None if there is none, or if the model has none."""
    mine, theirs = (run.steps()[step].values.get("experts") or {} for run in (one, other))
    moved = sum(
        abs(a - b)
        for layer in mine.keys() & theirs.keys()
        for a, b in zip(mine[layer], theirs[layer], strict=True)
    )
    if not moved:
        return None
    # A token that moves is missing at one expert and added at another.
    return Rerouting(step, max(1, moved // 2), sum(map(sum, mine.values())))


def _largest(one: RunDifference, other: RunDifference) -> RunDifference:
    norms = [norm for norm in (one.norm, other.norm) if norm is not None]
    return RunDifference(max(one.loss, other.loss), max(norms, default=None))
