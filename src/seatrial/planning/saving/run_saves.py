# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often a planned run saves, and what its checkpoints take on each storage tier."""

from dataclasses import dataclass, replace
from math import isqrt

from seatrial.catalog.catalog import Catalog
from seatrial.planning.plan import Plan
from seatrial.planning.saving.interval import FailureRate, losses, rate_of
from seatrial.planning.saving.save_budget import RESTART_SECONDS, SaveBudget, SavedRun, save_budget
from seatrial.planning.saving.size import node_bandwidth
from seatrial.planning.search.candidates import Priced

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
    rate = rate_of(plan.spec.cluster.failures_per_gpu_year)
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
    if budget.best_every_steps is not None:
        # A run saves at its end in any case.
        within = min(budget.best_every_steps, max(1, run.steps))
        budget = replace(budget, best_every_steps=within)
    seconds = {
        name: save_budget(run, checkpoints, catalog.storage(name)).write_seconds
        for name in profile.storage
    }
    return Saves(tier, claimed, budget, seconds, rate, run.between_failures)


def save_interval(plan: Plan, chosen: Priced | None, catalog: Catalog) -> int:
    """Steps between saves: those that lose least time where that is known, else a usual number."""
    if chosen is None:
        return _nearest(_usual(plan), _allowed(plan))
    return least_losing(plan, chosen, saves_of(plan, chosen, catalog))


def least_losing(plan: Plan, chosen: Priced, saves: Saves) -> int:
    """The interval that loses least among those at which what is kept for good is saved."""
    allowed, write = _allowed(plan), saves.budget.write_seconds
    best = saves.budget.best_every_steps
    if write is None or best is None:
        return _nearest(_usual(plan), allowed)
    if allowed is None:
        return best

    def lost(every: int) -> float:
        interval = every * chosen.time.total
        return losses(interval, write, RESTART_SECONDS, saves.between_failures).total

    return min(allowed, key=lost)


def _usual(plan: Plan) -> int:
    """Steps between saves where nothing says what they cost."""
    return max(1, min(MOST_STEPS, plan.length.steps // FEWEST_SAVES))


def _allowed(plan: Plan) -> list[int] | None:
    """The divisors of what is kept for good; any interval where the run keeps nothing so."""
    kept = plan.spec.checkpoints.keep_every_steps
    if kept is None or kept > plan.length.steps:
        return None
    small = [n for n in range(1, isqrt(kept) + 1) if kept % n == 0]
    return sorted({*small, *(kept // n for n in small)})


def _nearest(best: int, allowed: list[int] | None) -> int:
    """The interval nearest to the best one, by their ratio."""
    return min(allowed, key=lambda n: max(n / best, best / n)) if allowed else best
