# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often a planned run saves, and what its checkpoints take on each storage tier."""

from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.planning.plan import Plan
from seatrial.planning.saving.budget import SaveBudget, SavedRun, save_budget
from seatrial.planning.saving.failures import DEFAULT_RATE, FailureRate, failure_rates
from seatrial.planning.saving.writing import node_bandwidth
from seatrial.planning.search.outcome import Priced
from seatrial.spec.checkpoints import CheckpointsSpec

MOST_STEPS = 1000
"""Steps between saves at most, where the time of a step or of a save is not known."""
FEWEST_SAVES = 10
"""Saves of a run at least, where the time of a step or of a save is not known."""


@dataclass(frozen=True, slots=True)
class Saves:
    """The checkpoints of a planned run."""

    tier: str
    """The storage tier that is reckoned with."""
    assumed: bool
    """Whether the tier is the profile's own because the run brings a claim of an unknown one."""
    budget: SaveBudget
    """What they take there."""
    write_seconds: dict[str, float | None]
    """Time of one save on each tier of the profile, on the smallest volume that holds them."""
    rate: FailureRate
    """How often a published fleet fails."""
    between_failures: float
    """Seconds between failures of so many GPUs, by that rate."""


def saves_of(plan: Plan, chosen: Priced, catalog: Catalog) -> Saves:
    """The checkpoints of a plan whose time of a step is known."""
    machines, checkpoints = plan.machines, plan.spec.checkpoints
    rate = failure_rates()[DEFAULT_RATE]
    run = SavedRun(
        parameters=plan.model.parameters,
        precision=plan.spec.training.precision,
        nodes=machines.nodes,
        node_bandwidth=node_bandwidth(catalog.node_type(machines.node_type)),
        steps=plan.length.steps,
        step_seconds=chosen.time.total,
        between_failures=rate.between_failures(machines.world_size),
    )
    profile = catalog.profile(machines.profile)
    claimed = machines.storage.startswith("claim/")
    tier = profile.default_storage if claimed else machines.storage
    volume = plan.spec.cluster.storage.capacity
    budget = save_budget(run, checkpoints, catalog.storage(tier), volume)
    seconds = {
        name: save_budget(run, checkpoints, catalog.storage(name)).write_seconds
        for name in profile.storage
    }
    return Saves(tier, claimed, budget, seconds, rate, run.between_failures)


def save_interval(plan: Plan, chosen: Priced | None, catalog: Catalog) -> int:
    """Steps between saves: those that lose least time where that is known, else a usual number."""
    steps = plan.length.steps
    best = min(MOST_STEPS, steps // FEWEST_SAVES)
    if chosen is not None:
        best = saves_of(plan, chosen, catalog).budget.best_every_steps or best
    return fitting_interval(max(1, min(best, steps)), plan.spec.checkpoints)


def fitting_interval(best: int, checkpoints: CheckpointsSpec) -> int:
    """The interval nearest to the best one that divides what is kept for good."""
    kept = checkpoints.keep_every_steps
    if kept is None:
        return best
    divisors = [n for n in range(1, min(kept, 1 << 20) + 1) if kept % n == 0]
    return min(divisors, key=lambda n: abs(n - best))
