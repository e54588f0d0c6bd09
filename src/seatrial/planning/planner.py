# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plan a run from its basis. Every command uses this code."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from seatrial.planning.choices import BATCH, LAYOUT_FIELDS, SAVES, Choice, Choices, fill, value_at
from seatrial.planning.options import OptionOff, given_options, options_off
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import Basis
from seatrial.planning.resolve_layout import LayoutResolution
from seatrial.spec.scalars import AUTO

if TYPE_CHECKING:
    from seatrial.planning.calibration import Calibration
    from seatrial.planning.search.candidates import Priced, SearchOutcome
    from seatrial.planning.search.choose import LayoutChooser
    from seatrial.planning.search.problem import SearchProblem
    from seatrial.planning.timing.constants import TimingConstants
    from seatrial.planning.timing.error_bars import StepTimeError


@dataclass(frozen=True)
class PlannedRun:
    """A plan with its search results; memory and time are estimated on first use."""

    plan: Plan
    choices: Choices
    """The fields that the planner filled, with their values."""
    basis: Basis
    """The resolved spec without a layout."""
    calibration: "Calibration | None"
    """The calibration from the user's own steps."""
    outcome: "SearchOutcome | None"
    """The search that chose the layout, or that shows alternatives to the spec's layout."""
    searched: bool
    """True if the search chose at least a part of the layout."""

    @cached_property
    def chooser(self) -> "LayoutChooser":
        """Searches and estimates layouts for the basis."""
        return _chooser(self.basis, self.calibration)

    @property
    def problem(self) -> "SearchProblem":
        """The input of the search."""
        return self.chooser.problem

    @property
    def constants(self) -> "TimingConstants | None":
        """The constants of the step time model; None on a host without GPUs."""
        return self.chooser.constants

    @cached_property
    def chosen(self) -> "Priced | None":
        """Memory and time of the plan; None on a host without GPUs."""
        return self.chooser.price(self.plan)

    @cached_property
    def phase_seconds(self) -> tuple[float, ...]:
        """The step time of each batch size of the run; empty on a host without GPUs."""
        if self.chosen is None:
            return ()
        early = (self.chooser.price(self.plan, phase) for phase in self.plan.length.phases[:-1])
        times = [priced.time.total for priced in early if priced is not None]
        return *times, self.chosen.time.total

    @cached_property
    def given_fields(self) -> tuple[str, ...]:
        """The layout fields that the spec sets."""
        spec = self.basis.loaded.spec
        fields = (field for field in LAYOUT_FIELDS if field != BATCH)
        return tuple(field for field in fields if value_at(spec, field) != AUTO)

    @cached_property
    def with_auto(self) -> "SearchOutcome | None":
        """The search with every layout field `auto`; None on a host without GPUs."""
        return (
            self.chooser.search(free=True) if self.searched and self.given_fields else self.outcome
        )

    @cached_property
    def options_off(self) -> tuple[OptionOff, ...]:
        """The performance options that are off, each with its reason."""
        plan = self.plan
        case = self.basis.option_chooser().case(
            plan.layout,
            sequence_parallel=plan.sequence_parallel,
            sharding=plan.sharding,
            recompute=plan.recompute,
        )
        chosen = replace(case, options=given_options(plan.spec))
        return options_off(chosen, self.basis.limits.options)

    @property
    def time_error(self) -> "StepTimeError | None":
        """The expected error of the step time; None on a host without GPUs."""
        return self.chooser.time_error(self.chosen)


def plan_run(
    basis: Basis,
    *,
    calibration: "Calibration | None" = None,
    kept: Choices | None = None,
    alternatives: bool = False,
) -> PlannedRun:
    """Plan a run; raise with all findings if there is no valid plan.

    Args:
        basis: The spec, with its model and machines.
        calibration: The calibration from the user's own steps.
        kept: The choices from an earlier plan for the same spec, which are reused.
        alternatives: True to search for alternatives even if no field is open.
    """
    searched = any(field in LAYOUT_FIELDS for field in basis.open_fields)
    choices: dict[str, Choice] = dict(kept or {})
    outcome = None
    if alternatives or (searched and kept is None):
        chooser = _chooser(basis, calibration)
        outcome = chooser.search(free=not searched)
        if searched and kept is None:
            choices |= chooser.choose_layout(outcome)
    resolution = LayoutResolution(basis, choices)
    layout, stages = resolution.layout()
    batch = resolution.batch(layout)
    length = resolution.length(batch)
    schedule = resolution.schedule(length)
    resolution.choose_options(layout)
    spec, model = resolution.spec, resolution.model(layout)
    every = spec.checkpoints.every_steps
    plan = Plan(
        spec=spec,
        model=model,
        machines=basis.machines,
        layout=layout,
        sequence_parallel=resolution.sequence_parallel,
        sharding=spec.parallelism.sharding,
        recompute=spec.parallelism.recompute,
        stages=stages,
        stage_parameters=resolution.stage_parameters(model, layout, stages),
        batch=batch,
        length=length,
        schedule=schedule,
        save_every_steps=0 if every == AUTO else int(every),
        checkpoint_location=_checkpoint_location(resolution),
        data_location=resolution.location("data.location", "data"),
        origins=resolution.origins(choices),
        findings=tuple(resolution.report.findings),
    )
    if every == AUTO:
        choices[SAVES] = saves = _chooser(basis, calibration).choose_saves(plan)
        origins = resolution.origins(choices)
        spec = fill(spec, {SAVES: saves})
        plan = replace(plan, spec=spec, save_every_steps=saves, origins=origins)
    return PlannedRun(plan, choices, basis, calibration, outcome, searched)


def _checkpoint_location(resolution: LayoutResolution) -> str:
    """Return where to save; a benchmark must not leave checkpoints that the run would resume."""
    usual = resolution.location("checkpoints.location", "checkpoints")
    is_benchmark = resolution.spec.training.benchmark_steps is not None
    return f"{usual.rstrip('/')}-benchmark" if is_benchmark else usual


def _chooser(basis: Basis, calibration: "Calibration | None") -> "LayoutChooser":
    """Return the chooser; imported here because a spec without `auto` needs no search."""
    from seatrial.planning.search.choose import LayoutChooser  # noqa: PLC0415

    return LayoutChooser(basis, calibration)
