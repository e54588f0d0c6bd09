# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spec -> planned run: the search fills what is `auto`, the rest resolves as it is written."""

from dataclasses import dataclass, replace

from seatrial.catalog.catalog import Catalog
from seatrial.planning.calibration import Calibration, calibrated
from seatrial.planning.memory.estimate import every_stage
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import basis, resolve
from seatrial.planning.search.candidate import Candidate, Shape
from seatrial.planning.search.fill import (
    LAYOUT_FIELDS,
    SAVES,
    Choices,
    choices_of,
    filled,
    open_fields,
    origins_of,
)
from seatrial.planning.search.find import search
from seatrial.planning.search.least import least_divided
from seatrial.planning.search.outcome import Outcome, Priced
from seatrial.planning.search.pose import problem_of, published_tokens
from seatrial.planning.search.problem import STACKS, Problem
from seatrial.planning.search.refuse import refuse_illegal, refuse_too_large
from seatrial.planning.search.saves import save_interval
from seatrial.planning.search.trust import time_error
from seatrial.planning.timing.constants import Constants, constants_for
from seatrial.planning.timing.error import StepTimeError
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.parallelism import ParallelismSpec
from seatrial.spec.scalars import AUTO


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A plan with what the planner thought of it."""

    plan: Plan
    """Everything about the run."""
    choices: Choices
    """The fields that the planner filled, with their values."""
    problem: Problem
    """The question that the search was asked."""
    chosen: Priced | None
    """Memory and time of the plan; nothing on a host without GPUs."""
    constants: Constants | None
    """The constants of the time; nothing on a host without GPUs."""
    outcome: Outcome | None
    """The search: the one that chose, or what it would choose where the layout was given."""
    searched: bool
    """Whether the layout was chosen, at least in part, by the search."""

    @property
    def time_error(self) -> StepTimeError | None:
        """The error to expect of the plan's time; nothing on a host without GPUs."""
        if self.chosen is None or self.constants is None:
            return None
        return time_error(self.chosen.workload, self.constants)


def plan_run(
    loaded: LoadedSpec,
    catalog: Catalog,
    *,
    calibration: Calibration | None = None,
    kept: Choices | None = None,
) -> PlannedRun:
    """Plan a run; raises with every finding when there can be no plan.

    `calibration` comes from the user's own steps. `kept` are the choices of an earlier plan of
    the same spec, which are used again.
    """
    found = basis(loaded, catalog)
    problem = problem_of(loaded.spec, found, catalog)
    constants = constants_of(problem, calibration)
    wanted = open_fields(loaded.spec, found.architecture)
    searched = any(field in LAYOUT_FIELDS for field in wanted)
    outcome = _searched(problem, constants, free=not searched)
    choices = dict(kept) if kept is not None else {}
    if searched and kept is None:
        candidate = _chosen(loaded, catalog, problem, outcome)
        choices = choices_of(candidate, loaded.spec, found.architecture)
    if SAVES in wanted and SAVES not in choices:
        choices[SAVES] = _saves(filled(loaded, choices), catalog, problem, constants)
    plan = plan_with(loaded, catalog, choices)
    chosen = priced(plan, problem, constants)
    return PlannedRun(plan, choices, problem, chosen, constants, outcome, searched)


def constants_of(problem: Problem, calibration: Calibration | None = None) -> Constants | None:
    """The constants of the problem's GPUs, calibrated; nothing where there are none."""
    if problem.hardware is None:
        return None
    stack = STACKS[problem.engine]
    known = constants_for(problem.hardware.accelerator, problem.precision, stack)
    return calibrated(known, calibration) if calibration is not None else known


def _searched(problem: Problem, constants: Constants | None, *, free: bool) -> Outcome | None:
    """The search; with every field `auto` where the spec leaves none to it."""
    hardware = problem.hardware
    if hardware is None or constants is None:
        return None
    if free:
        given = ParallelismSpec(etp_size=problem.given.etp_size)
        problem = replace(problem, given=given, micro_batch_size=AUTO)
    return search(problem, hardware, constants)


def _chosen(
    loaded: LoadedSpec, catalog: Catalog, problem: Problem, outcome: Outcome | None
) -> Candidate:
    """The layout that the search chose; raises where there is none."""
    if outcome is None:
        candidate = least_divided(problem)
        if candidate is None:
            refuse_illegal(loaded, catalog, problem)
        return candidate
    if outcome.best is None:
        if outcome.lacking:
            refuse_too_large(loaded, problem, outcome.lacking[0])
        refuse_illegal(loaded, catalog, problem)
    return outcome.best.candidate


def _saves(
    loaded: LoadedSpec, catalog: Catalog, problem: Problem, constants: Constants | None
) -> int:
    """Steps between saves, for a spec whose layout is decided."""
    # The plan needs some interval before the best one is known; 1 is always legal.
    provisional = resolve(filled(loaded, {SAVES: 1}), catalog)
    return save_interval(provisional, priced(provisional, problem, constants), catalog)


def plan_with(loaded: LoadedSpec, catalog: Catalog, choices: Choices) -> Plan:
    """The plan of a spec with choices for its open fields; raises where they break a rule."""
    found = basis(loaded, catalog)
    tokens = published_tokens(found.preset[1] if found.preset else None)
    origins = origins_of(choices, tokens // found.sequence_length)
    return resolve(filled(loaded, choices), catalog, origins)


def priced(plan: Plan, problem: Problem, constants: Constants | None) -> Priced | None:
    """Memory of every stage and time of a plan; nothing on a host without GPUs."""
    if problem.hardware is None or constants is None:
        return None
    candidate = candidate_of(plan)
    workload = problem.workload(candidate, problem.hardware)
    return Priced(candidate, workload, every_stage(workload), step_time(workload, constants))


def candidate_of(plan: Plan) -> Candidate:
    """The layout of a plan as the search has layouts."""
    given = plan.spec.parallelism
    shape = Shape(
        plan.layout,
        plan.stages,
        given.first_stage_layers,
        given.last_stage_layers,
        plan.sequence_parallel,
        plan.sharding,
    )
    batch = plan.batch
    return Candidate(shape, batch.micro_batch_size, batch.global_batch_size, plan.recompute)
