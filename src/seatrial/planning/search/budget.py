# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a planned run takes: time, node-hours, money, checkpoints."""

from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.planning.cost import HOUR, Cost, cost_of
from seatrial.planning.search.planner import PlannedRun
from seatrial.planning.search.saves import Saves, saves_of


@dataclass(frozen=True, slots=True)
class Budget:
    """Time and cost of a whole run."""

    seconds: float | None
    """Time of all steps; nothing on a host without GPUs."""
    error: float
    """Relative error of that time."""
    node_hours: float
    """Hours of all nodes together."""
    cost: Cost | None
    """What they cost; nothing where no price is known."""
    saves: Saves | None = None
    """What its checkpoints take; nothing on a host without GPUs."""


def budget_of(run: PlannedRun, catalog: Catalog) -> Budget:
    """Time and cost of a planned run."""
    if run.chosen is None:
        return Budget(None, 0.0, 0.0, None)
    machines = run.plan.machines
    seconds = run.chosen.time.total * run.plan.length.steps
    cost = cost_of(catalog.node_type(machines.node_type), machines.nodes, seconds)
    node_hours = seconds / HOUR * machines.nodes
    saves = saves_of(run.plan, run.chosen, catalog)
    return Budget(seconds, run.chosen.time.error, node_hours, cost, saves)
