# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spec -> planned run: the search fills what is `auto`, the rest resolves as it is written."""

from dataclasses import dataclass, replace

from seatrial.catalog.catalog import Catalog
from seatrial.planning.calibration import Calibration, calibrated
from seatrial.planning.choices import (
    BATCH,
    LAYOUT_FIELDS,
    SAVES,
    STAGE_ENDS,
    Choice,
    Choices,
    value_at,
)
from seatrial.planning.memory.estimate import every_stage
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import Basis, basis, plan_on
from seatrial.planning.search.candidates import Candidate, Priced, SearchOutcome, Shape
from seatrial.planning.search.no_layout import refuse_illegal, refuse_too_large
from seatrial.planning.search.problem import SearchProblem, problem_of
from seatrial.planning.search.saves import save_interval
from seatrial.planning.search.search import ANY_BATCH, BATCH_TOLERANCE, off_target, search
from seatrial.planning.search.space import batches, shapes
from seatrial.planning.timing.constants import TimingConstants, constants_for
from seatrial.planning.timing.error_bars import StepTimeError, time_error
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.parallelism import ParallelismSpec, Recompute, Sharding
from seatrial.spec.scalars import AUTO


def least_divided(problem: SearchProblem) -> Candidate | None:
    """The legal layout with the fewest ranks to a model copy; nothing when none is legal.

    Memory and time of a host without GPUs are not modelled, so nothing else could decide.
    """
    sharding, recompute = problem.given.sharding, problem.given.recompute
    if sharding is Sharding.AUTO:
        sharding = problem.limits.shardings[0][-1]
    if recompute is Recompute.AUTO:
        recompute = Recompute.NONE
    found = [
        Candidate(shape, micro, total, recompute)
        for shape in shapes(problem, sharding)
        for micro, total in batches(problem, shape.layout, ANY_BATCH)
    ]
    off = [off_target(problem, candidate.global_batch_size) for candidate in found]
    # Near the target nothing but the division counts; else the batch that is nearest to it.
    allowed = max(BATCH_TOLERANCE, min(off, default=0.0))
    near = (candidate for candidate, far in zip(found, off, strict=True) if far <= allowed)
    return min(near, key=_divided, default=None)


def _divided(candidate: Candidate) -> tuple[int, ...]:
    """How much a layout divides; what comes later decides between equals."""
    layout = candidate.shape.layout
    copies = layout.tp_size * layout.pp_size * layout.cp_size
    return copies, layout.pp_size, layout.cp_size, layout.vp_size, candidate.micro_batch_size


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A plan with what the planner thought of it."""

    plan: Plan
    """Everything about the run."""
    choices: Choices
    """The fields that the planner filled, with their values."""
    problem: SearchProblem
    """The question that the search was asked."""
    chosen: Priced | None
    """Memory and time of the plan; nothing on a host without GPUs."""
    constants: TimingConstants | None
    """The constants of the time; nothing on a host without GPUs."""
    outcome: SearchOutcome | None
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
    alternatives: bool = False,
) -> PlannedRun:
    """Plan a run; raises with every finding when there can be no plan.

    Args:
        loaded: The spec.
        catalog: The facts.
        calibration: The user's own steps.
        kept: The choices of an earlier plan of the same spec, which are used again.
        alternatives: Whether to search also where nothing is left to choose, for what else there
            would be.
    """
    return plan_basis(
        basis(loaded, catalog), calibration=calibration, kept=kept, alternatives=alternatives
    )


def plan_basis(
    known: Basis,
    *,
    calibration: Calibration | None = None,
    kept: Choices | None = None,
    alternatives: bool = False,
) -> PlannedRun:
    """The same for a spec whose model and machines are resolved."""
    problem = problem_of(known)
    constants = constants_of(problem, calibration)
    wanted = known.open_fields
    searched = any(field in LAYOUT_FIELDS for field in wanted)
    is_chosen = searched and kept is None
    outcome = None
    if is_chosen or alternatives:
        outcome = _searched(problem, constants, free=not searched)
    choices = dict(kept) if kept is not None else {}
    if is_chosen:
        choices = choices_of(_chosen(known, problem, outcome), known)
    if SAVES in wanted and SAVES not in choices:
        choices[SAVES] = _saves(known, choices, problem, constants)
    plan = plan_on(known, choices)
    chosen = priced(plan, problem, constants)
    return PlannedRun(plan, choices, problem, chosen, constants, outcome, searched)


def choices_of(candidate: Candidate, known: Basis) -> dict[str, Choice]:
    """What a candidate says of the fields that are still open."""
    shape, layout = candidate.shape, candidate.shape.layout
    values: dict[str, Choice | None] = {
        "parallelism.tp_size": layout.tp_size,
        "parallelism.pp_size": layout.pp_size,
        "parallelism.vp_size": layout.vp_size,
        "parallelism.cp_size": layout.cp_size,
        "parallelism.ep_size": layout.ep_size,
        "parallelism.sequence_parallel": shape.sequence_parallel,
        "parallelism.sharding": str(shape.sharding),
        "parallelism.recompute": str(candidate.recompute),
        "training.micro_batch_size": candidate.micro_batch_size,
        BATCH: candidate.global_batch_size,
    }
    chosen = {field: values[field] for field in known.open_fields if field in values}
    ends = dict(zip(STAGE_ENDS, (shape.first_stage_layers, shape.last_stage_layers), strict=True))
    chosen |= {
        field: size for field, size in ends.items() if value_at(known.loaded.spec, field) is None
    }
    return {field: value for field, value in chosen.items() if value is not None}


def constants_of(
    problem: SearchProblem, calibration: Calibration | None = None
) -> TimingConstants | None:
    """The constants of the problem's GPUs, calibrated; nothing where there are none."""
    if problem.hardware is None:
        return None
    accelerator = problem.hardware.accelerator
    known = constants_for(accelerator, problem.precision, problem.limits.stack)
    return calibrated(known, calibration) if calibration is not None else known


def _searched(
    problem: SearchProblem, constants: TimingConstants | None, *, free: bool
) -> SearchOutcome | None:
    """The search; with every field `auto` where the spec leaves none to it."""
    hardware = problem.hardware
    if hardware is None or constants is None:
        return None
    if free:
        given = ParallelismSpec(etp_size=problem.given.etp_size)
        problem = replace(problem, given=given, micro_batch_size=AUTO)
    return search(problem, hardware, constants)


def _chosen(known: Basis, problem: SearchProblem, outcome: SearchOutcome | None) -> Candidate:
    """The layout that the search chose; raises where there is none."""
    if outcome is None:
        candidate = least_divided(problem)
        if candidate is None:
            refuse_illegal(known, problem)
        return candidate
    if outcome.best is None:
        if outcome.lacking:
            refuse_too_large(known.loaded, problem, outcome.lacking[0])
        refuse_illegal(known, problem)
    return outcome.best.candidate


def _saves(
    known: Basis, choices: Choices, problem: SearchProblem, constants: TimingConstants | None
) -> int:
    """Steps between saves, for a spec whose layout is decided."""
    # The plan needs some interval before the best one is known; 1 is always legal.
    provisional = plan_on(known, {**choices, SAVES: 1})
    return save_interval(provisional, priced(provisional, problem, constants), known.catalog)


def priced(plan: Plan, problem: SearchProblem, constants: TimingConstants | None) -> Priced | None:
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
