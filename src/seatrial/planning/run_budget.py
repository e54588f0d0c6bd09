# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Time, node-hours, cost and checkpoints of a planned run."""

from dataclasses import dataclass
from datetime import date

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.node_types import NodeType
from seatrial.planning.planner import PlannedRun
from seatrial.planning.saving.interval import Losses
from seatrial.planning.saving.run_saves import Saves, saves_of
from seatrial.planning.saving.save_budget import RESTART_SECONDS

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of a run."""

    usd: float
    """US dollars for all nodes over the whole time."""
    usd_per_hour: float
    """List price of one node per hour."""
    as_of: date
    """The day on which the source stated the price."""
    region: str
    """The region that the price applies to."""
    source: str
    """Where the price is published."""


def cost_of(node: NodeType, nodes: int, seconds: float) -> Cost | None:
    """Return the cost of the nodes for this time, or None if no price is known."""
    price = node.price
    if price is None:
        return None
    usd = price.usd_per_hour * nodes * seconds / HOUR
    return Cost(usd, price.usd_per_hour, price.as_of, price.region, price.source)


MOST_LOST = 0.99
"""Fraction of lost time above which a run counts as never finishing."""


@dataclass(frozen=True, slots=True)
class Duration:
    """The duration of a run from its first step to its last, by component."""

    training: float
    """Seconds of all steps, without repeated steps."""
    saving: float
    """Seconds that training waits for saves."""
    failures: float
    """Seconds of restarts, and of steps that are repeated after failures."""

    @property
    def total(self) -> float:
        return self.training + self.saving + self.failures


@dataclass(frozen=True, slots=True)
class RunBudget:
    """Time and cost of a whole run."""

    duration: Duration | None
    """None on a host without GPUs, and if the run never finishes."""
    error: float
    """Relative error of the time in nine of ten runs."""
    node_hours: float
    """Hours of all nodes together."""
    cost: Cost | None
    """Cost of the node-hours; None if no price is known."""
    saves: Saves | None = None
    """The checkpoints; None on a host without GPUs."""


@dataclass(frozen=True, slots=True)
class FailureLoss:
    """The most that one failure costs."""

    work: float
    """Seconds of work since the last save."""
    restart: float
    """Seconds until training continues."""
    usd: float | None
    """List price of all nodes for that time; None if no price is known."""


def failure_loss(budget: RunBudget, nodes: int) -> FailureLoss | None:
    """Return the most that one failure costs, or None on a host without GPUs."""
    if budget.saves is None:
        return None
    work = budget.saves.at_risk
    hours = (work + RESTART_SECONDS) / HOUR
    usd = budget.cost.usd_per_hour * nodes * hours if budget.cost is not None else None
    return FailureLoss(work, RESTART_SECONDS, usd)


def budget_of(run: PlannedRun, catalog: Catalog) -> RunBudget:
    """Return time and cost of a planned run, including saves, failures and restarts."""
    if run.chosen is None:
        return RunBudget(None, 0.0, 0.0, None)
    machines, known = run.plan.machines, run.time_error
    error = known.nine_of_ten if known else 0.0
    saves = saves_of(run.plan, run.chosen, catalog)
    training = sum(
        seconds * steps
        for seconds, steps in zip(run.phase_seconds, run.plan.length.steps_by_phase, strict=True)
    )
    duration = duration_of(training, saves.budget.lost or Losses(0.0, 0.0))
    if duration is None:
        return RunBudget(None, error, 0.0, None, saves)
    cost = cost_of(catalog.node_type(machines.node_type), machines.nodes, duration.total)
    node_hours = duration.total / HOUR * machines.nodes
    return RunBudget(duration, error, node_hours, cost, saves)


def duration_of(training: float, lost: Losses) -> Duration | None:
    """Return the duration including lost time, or None if almost all of the time is lost."""
    if lost.total > MOST_LOST:
        return None
    total = training / (1 - lost.total)
    return Duration(training, lost.saving * total, lost.failures * total)
