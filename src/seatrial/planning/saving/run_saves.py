# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often a planned run saves, and the cost of its checkpoints on each storage tier."""

from dataclasses import dataclass, replace
from math import isqrt

from seatrial.catalog.catalog import Catalog
from seatrial.planning.parameters import input_parameters
from seatrial.planning.plan import Plan
from seatrial.planning.saving.interval import FailureRate, losses, rate_of
from seatrial.planning.saving.save_budget import RESTART_SECONDS, SaveBudget, SavedRun, save_budget
from seatrial.planning.saving.size import node_bandwidth
from seatrial.planning.search.candidates import Priced
from seatrial.spec.training import OptimizerName

MOST_AT_RISK = 7200.0
"""Maximum seconds of work between two saves by default, even if a longer interval is better."""
MOST_STEPS = 1000
"""Maximum number of steps between saves if the step time or the save time is unknown."""
FEWEST_SAVES = 10
"""Minimum number of saves in a run if the step time or the save time is unknown."""


@dataclass(frozen=True, slots=True)
class Saves:
    """The checkpoints of a planned run."""

    tier: str
    """The storage tier that the figures are for."""
    assumed: bool
    """True if the throughput of an existing PVC is unknown: the profile's default tier is used."""
    budget: SaveBudget
    """Size, save time and losses on that tier."""
    write_seconds: dict[str, float | None]
    """Seconds per save on each tier in the profile, on the smallest sufficient volume."""
    rate: FailureRate
    """The assumed failure rate."""
    between_failures: float
    """Mean seconds between failures of any GPU, at that rate."""
    at_risk: float
    """Seconds of work between two saves: the most that one failure loses."""


def muon_parameters(plan: Plan) -> int:
    """Return the parameters that Muon updates: those in the layers; 0 with AdamW alone."""
    if plan.spec.training.optimizer.name is not OptimizerName.MUON:
        return 0
    model, vocab = plan.model.architecture, plan.model.padded_vocab_size
    outputs = 0 if model.tied_embeddings else vocab * model.hidden_size
    return plan.model.parameters - input_parameters(model, vocab) - outputs


def saves_of(plan: Plan, chosen: Priced, catalog: Catalog) -> Saves:
    """Return the checkpoints of a plan whose step time is known."""
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
        ranks=machines.world_size,
        muon_parameters=muon_parameters(plan),
    )
    profile = catalog.profile(machines.profile)
    claimed = machines.storage.startswith("claim/")
    tier = profile.default_storage if claimed else machines.storage
    storage = plan.spec.cluster.storage
    own = catalog.storage(tier).writing(storage.write_gb_s)
    budget = save_budget(run, checkpoints, own, storage.capacity)
    if budget.best_every_steps is not None:
        # A run always saves at its end.
        within = min(budget.best_every_steps, max(1, run.steps))
        budget = replace(budget, best_every_steps=within)
    seconds = {
        name: save_budget(run, checkpoints, catalog.storage(name)).write_seconds
        for name in profile.storage
    }
    if storage.write_gb_s is not None:
        seconds[tier] = budget.write_seconds
    at_risk = (plan.save_every_steps or budget.every_steps or 0) * run.step_seconds
    assumed = claimed and storage.write_gb_s is None
    return Saves(tier, assumed, budget, seconds, rate, run.between_failures, at_risk)


def save_interval(plan: Plan, chosen: Priced | None, catalog: Catalog) -> int:
    """Return the steps between saves for a spec that leaves them to the planner.

    An interval in minutes or hours is rounded down to whole steps. Otherwise, the planner uses the
    interval that loses the least time, with at most `MOST_AT_RISK` seconds of work at risk. If the
    step time is unknown, the planner uses a typical number of steps.
    """
    if chosen is None:
        return _nearest(_usual(plan), _allowed(plan))
    given = plan.spec.checkpoints.every_seconds
    if given is not None:
        most = min(_steps_within(given, chosen), max(1, plan.length.steps))
        return max(_up_to(most, _allowed(plan) or [most]))
    return least_losing(plan, chosen, saves_of(plan, chosen, catalog))


def least_losing(plan: Plan, chosen: Priced, saves: Saves) -> int:
    """Return the interval that loses the least time, with a limited amount of work at risk.

    If the run keeps some checkpoints permanently, `keep_every_steps` is a multiple of the interval.
    """
    most = _steps_within(MOST_AT_RISK, chosen)
    allowed, write = _allowed(plan), saves.budget.write_seconds
    if allowed is not None:
        allowed = _up_to(most, allowed)
    best = saves.budget.best_every_steps
    if write is None or best is None:
        return _nearest(min(most, _usual(plan)), allowed)
    if allowed is None:
        return min(most, best)

    def lost(every: int) -> float:
        interval = every * chosen.time.total
        return losses(interval, write, RESTART_SECONDS, saves.between_failures).total

    return min(allowed, key=lost)


def _steps_within(seconds: float, chosen: Priced) -> int:
    """Return the number of whole steps that fit into a time, at least one."""
    return max(1, int(seconds / chosen.time.total))


def _up_to(most: int, intervals: list[int]) -> list[int]:
    """Return the intervals of at most this many steps, which always include 1."""
    return [interval for interval in intervals if interval <= most]


def _usual(plan: Plan) -> int:
    """Return a typical number of steps between saves, for unknown costs."""
    return max(1, min(MOST_STEPS, plan.length.steps // FEWEST_SAVES))


def _allowed(plan: Plan) -> list[int] | None:
    """Return the divisors of `keep_every_steps`, or None if any interval is allowed."""
    kept = plan.spec.checkpoints.keep_every_steps
    if kept is None or kept > plan.length.steps:
        return None
    small = [n for n in range(1, isqrt(kept) + 1) if kept % n == 0]
    return sorted({*small, *(kept // n for n in small)})


def _nearest(best: int, allowed: list[int] | None) -> int:
    """Return the allowed interval that is nearest to the best interval, by ratio."""
    return min(allowed, key=lambda n: max(n / best, best / n)) if allowed else best
