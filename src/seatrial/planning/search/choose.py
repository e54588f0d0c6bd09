# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fill the open fields in a spec: the fastest layout, and the checkpoint interval."""

from dataclasses import replace

from seatrial.planning.calibration import Calibration, calibrated
from seatrial.planning.choices import BATCH, STAGE_ENDS, Choice, value_at
from seatrial.planning.length import BatchPhase
from seatrial.planning.memory.estimate import every_stage
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import Basis
from seatrial.planning.saving.run_saves import save_interval
from seatrial.planning.search.candidates import Candidate, Priced, SearchOutcome, Shape
from seatrial.planning.search.no_layout import refuse_illegal, refuse_too_large
from seatrial.planning.search.problem import SearchProblem, problem_of
from seatrial.planning.search.search import ANY_BATCH, BATCH_TOLERANCE, off_target, search
from seatrial.planning.search.space import batches, shapes
from seatrial.planning.timing.constants import TimingConstants, constants_for
from seatrial.planning.timing.error_bars import StepTimeError, time_error
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.parallelism import ParallelismSpec, Recompute, Sharding
from seatrial.spec.scalars import AUTO


class LayoutChooser:
    """Searches, chooses and estimates layouts for one basis."""

    def __init__(self, basis: Basis, calibration: Calibration | None = None) -> None:
        """Build the search input, and look up the constants for its GPUs."""
        self.basis = basis
        self.problem = problem_of(basis)
        self.constants = constants_of(self.problem, calibration)

    def search(self, *, free: bool) -> SearchOutcome | None:
        """Search, with every field `auto` if `free`; return None on a host without GPUs."""
        problem, hardware = self.problem, self.problem.hardware
        if hardware is None or self.constants is None:
            return None
        if free:
            given = ParallelismSpec(etp_size=problem.given.etp_size)
            problem = replace(problem, given=given, micro_batch_size=AUTO)
        return search(problem, hardware, self.constants)

    def choose_layout(self, outcome: SearchOutcome | None) -> dict[str, Choice]:
        """Return the values of the open fields in the best layout; raise if there is none."""
        return choices_of(self._best(outcome), self.basis)

    def _best(self, outcome: SearchOutcome | None) -> Candidate:
        """Return the layout that the search chose; raise if there is none."""
        if outcome is None:
            candidate = least_divided(self.problem)
            if candidate is None:
                refuse_illegal(self.basis, self.problem)
            return candidate
        if outcome.best is None:
            if outcome.lacking:
                refuse_too_large(self.basis.loaded, self.problem, outcome.lacking[0])
            refuse_illegal(self.basis, self.problem)
        return outcome.best.candidate

    def choose_saves(self, plan: Plan) -> int:
        """Return the steps between saves for a plan in which only this field is open."""
        return save_interval(plan, self.price(plan), self.basis.catalog)

    def price(self, plan: Plan, phase: BatchPhase | None = None) -> Priced | None:
        """Return memory and time of a plan; None on a host without GPUs.

        With a batch schedule, this is for the last batch size unless `phase` is given.
        """
        hardware, constants = self.problem.hardware, self.constants
        if hardware is None or constants is None:
            return None
        candidate = candidate_of(plan)
        if phase is not None:
            candidate = replace(candidate, global_batch_size=phase.global_batch_size)
        workload = self.problem.workload(candidate, hardware)
        return Priced(candidate, workload, every_stage(workload), step_time(workload, constants))

    def time_error(self, chosen: Priced | None) -> StepTimeError | None:
        """Return the expected error of the step time; None on a host without GPUs."""
        if chosen is None or self.constants is None:
            return None
        return time_error(chosen.workload, self.constants, self.problem.limits)


def least_divided(problem: SearchProblem) -> Candidate | None:
    """Return the valid layout with the fewest ranks per model replica, or None if none is valid.

    This is for hosts without GPUs, whose memory and time are not modelled.
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
    # Near the target, only the division counts; otherwise, the nearest batch wins.
    allowed = max(BATCH_TOLERANCE, min(off, default=0.0))
    near = (candidate for candidate, far in zip(found, off, strict=True) if far <= allowed)
    return min(near, key=_divided, default=None)


def _divided(candidate: Candidate) -> tuple[int, ...]:
    """Return the sort key of a layout: how much it divides the model."""
    layout = candidate.shape.layout
    micro = candidate.micro_batch_size
    return layout.model_size, layout.pp_size, layout.cp_size, layout.vp_size, micro


def choices_of(candidate: Candidate, basis: Basis) -> dict[str, Choice]:
    """Return the values of the open fields in a candidate."""
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
    chosen = {field: values[field] for field in basis.open_fields if field in values}
    ends = dict(zip(STAGE_ENDS, (shape.first_stage_layers, shape.last_stage_layers), strict=True))
    chosen |= {
        field: size for field, size in ends.items() if value_at(basis.loaded.spec, field) is None
    }
    return {field: value for field, value in chosen.items() if value is not None}


def constants_of(
    problem: SearchProblem, calibration: Calibration | None = None
) -> TimingConstants | None:
    """Return the calibrated constants for the GPUs; None on a host without GPUs."""
    if problem.hardware is None:
        return None
    accelerator = problem.hardware.accelerator
    known = constants_for(accelerator, problem.precision, problem.limits.stack)
    return calibrated(known, calibration) if calibration is not None else known


def candidate_of(plan: Plan) -> Candidate:
    """Return the layout of a plan as a candidate."""
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
