# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a planned run takes: time, node-hours, money, checkpoints."""

from dataclasses import dataclass
from datetime import date

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.node_types import NodeType
from seatrial.planning.planner import PlannedRun
from seatrial.planning.saving.interval import Losses
from seatrial.planning.saving.run_saves import Saves, saves_of

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of a run."""

    usd: float
    """US dollars for all nodes over the whole time."""
    usd_per_hour: float
    """List price of one node and hour."""
    as_of: date
    """The day on which the source stated the price."""
    region: str
    """The region it holds for."""
    source: str
    """Where the price was read."""


def cost_of(node: NodeType, nodes: int, seconds: float) -> Cost | None:
    """What the nodes cost for that time; nothing where no price is known."""
    price = node.price
    if price is None:
        return None
    usd = price.usd_per_hour * nodes * seconds / HOUR
    return Cost(usd, price.usd_per_hour, price.as_of, price.region, price.source)


MOST_LOST = 0.99
"""Share of lost time beyond which a run is said to get nowhere, instead of how long it takes."""


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a run takes from its first step to its last, and of what that is made."""

    training: float
    """Seconds of all steps, each done once."""
    saving: float
    """Seconds that training waits for saves."""
    failures: float
    """Seconds of steps done again after failures, and of restarts."""

    @property
    def total(self) -> float:
        return self.training + self.saving + self.failures


@dataclass(frozen=True, slots=True)
class RunBudget:
    """Time and cost of a whole run."""

    duration: Duration | None
    """How long it takes; nothing on a host without GPUs, and where it never gets to its end."""
    error: float
    """Relative error that the time of nine of ten runs stays below."""
    node_hours: float
    """Hours of all nodes together."""
    cost: Cost | None
    """What they cost; nothing where no price is known."""
    saves: Saves | None = None
    """What its checkpoints take; nothing on a host without GPUs."""


def budget_of(run: PlannedRun, catalog: Catalog) -> RunBudget:
    """Time and cost of a planned run, with the time that saves, failures and restarts take."""
    if run.chosen is None:
        return RunBudget(None, 0.0, 0.0, None)
    machines, known = run.plan.machines, run.time_error
    error = known.nine_of_ten if known else 0.0
    saves = saves_of(run.plan, run.chosen, catalog)
    training = run.chosen.time.total * run.plan.length.steps
    duration = duration_of(training, saves.budget.lost or Losses(0.0, 0.0))
    if duration is None:
        return RunBudget(None, error, 0.0, None, saves)
    cost = cost_of(catalog.node_type(machines.node_type), machines.nodes, duration.total)
    node_hours = duration.total / HOUR * machines.nodes
    return RunBudget(duration, error, node_hours, cost, saves)


def duration_of(training: float, lost: Losses) -> Duration | None:
    """The time of a run of which shares are lost; nothing where hardly any is left."""
    if lost.total > MOST_LOST:
        return None
    total = training / (1 - lost.total)
    return Duration(training, lost.saving * total, lost.failures * total)
