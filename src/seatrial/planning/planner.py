# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Basis -> planned run: the one way to a plan, for every command."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from seatrial.planning.choices import LAYOUT_FIELDS, SAVES, Choice, Choices, fill
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
    """A plan with what the planner thought of it; memory and time are reckoned when asked for."""

    plan: Plan
    """Everything about the run."""
    choices: Choices
    """The fields that the planner filled, with their values."""
    basis: Basis
    """What was planned for."""
    calibration: "Calibration | None"
    """The user's own steps."""
    outcome: "SearchOutcome | None"
    """The search: the one that chose, or what it would choose where the layout was given."""
    searched: bool
    """Whether the layout was chosen, at least in part, by the search."""

    @cached_property
    def chooser(self) -> "LayoutChooser":
        """What searches and prices for the basis."""
        return _chooser(self.basis, self.calibration)

    @property
    def problem(self) -> "SearchProblem":
        """The question that the search was asked."""
        return self.chooser.problem

    @property
    def constants(self) -> "TimingConstants | None":
        """The constants of the time; `None` on a host without GPUs."""
        return self.chooser.constants

    @cached_property
    def chosen(self) -> "Priced | None":
        """Memory and time of the plan; `None` on a host without GPUs."""
        return self.chooser.price(self.plan)

    @property
    def time_error(self) -> "StepTimeError | None":
        """The error to expect of the plan's time; `None` on a host without GPUs."""
        return self.chooser.time_error(self.chosen)


def plan_run(
    basis: Basis,
    *,
    calibration: "Calibration | None" = None,
    kept: Choices | None = None,
    alternatives: bool = False,
) -> PlannedRun:
    """Plan a run; raises with every finding when there can be no plan.

    Args:
        basis: The spec, with its model and machines.
        calibration: The user's own steps.
        kept: The choices of an earlier plan of the same spec, which are used again.
        alternatives: Whether to search also where nothing is left to choose, for what else there
            would be.
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
    schedule = resolution.schedule(batch, length)
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
        checkpoint_location=resolution.location("checkpoints.location", "checkpoints"),
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


def _chooser(basis: Basis, calibration: "Calibration | None") -> "LayoutChooser":
    """What fills open fields; loaded here, as a spec without `auto` needs none of the search."""
    from seatrial.planning.search.choose import LayoutChooser  # noqa: PLC0415

    return LayoutChooser(basis, calibration)
