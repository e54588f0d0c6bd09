# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calibrate a run: compare measured steps with the planner's uncalibrated prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.errors import UsageError
from seatrial.planning.calibration import (
    Calibration,
    calibrate,
    calibrated,
    choose_steps,
    write_calibration,
)
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.problem import measured_on
from seatrial.planning.timing.error_bars import StepTimeError, time_error, workload_digest
from seatrial.runs.history.steps import logged_steps, of_this_plan
from seatrial.runs.kept_plan import PLANNED_AGAIN, find, plan_file
from seatrial.spec.loader import LoadedSpec


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration and its effect."""

    calibration: Calibration
    """The factor and its source."""
    file: Path
    """The file that stores the calibration."""
    before: StepTimeError
    """The expected error without calibration."""
    after: StepTimeError
    """The expected error for other layouts with the calibration."""
    news: str = ""
    """A message about the plan that was compared. Empty if there is none."""


def calibrate_run(
    loaded: LoadedSpec,
    catalog: Catalog,
    spec_file: Path,
    measured: Path | Sequence[float],
    *,
    is_overridden: bool = False,
) -> Calibrated:
    """Calibrate a run with its event log or step times, and store the result next to its spec.

    Step times do not record their layout, so they are attributed to the stored plan, and rejected
    if that plan is no longer valid. A spec with overrides has no stored plan.
    """
    basis = resolve_basis(loaded, catalog)
    found = find(basis, spec_file)
    news = "" if is_overridden and found.choices is None else found.news
    if news and found.choices is None and not isinstance(measured, Path):
        raise UsageError(_stale(news, spec_file))
    run = plan_run(basis, kept=found.choices)
    if run.chosen is None or run.constants is None:
        raise UsageError(
            f"{loaded.spec.name} has no GPUs, and the planner predicts step times only for GPUs. "
            "Set cluster.node_type to the node type that you measured on."
        )
    machines = measured_on(basis)
    if isinstance(measured, Path):
        steps = choose_steps(of_this_plan(logged_steps(measured), run.plan, measured))
    else:
        # Manual measurements already exclude the warm-up steps.
        steps = choose_steps([measured], warm_up=0)
    workload = run.chosen.workload
    of_workload = workload_digest(workload)
    result = calibrate(run.chosen.time.total, steps, machines, run.constants, of_workload)
    file = write_calibration(result, plan_file(spec_file, loaded.spec.name).parent)
    others = replace(calibrated(run.constants, result), measured=None)
    before = time_error(workload, run.constants, basis.limits)
    after = time_error(workload, others, basis.limits)
    return Calibrated(result, file, before, after, news)


def _stale(news: str, spec_file: Path) -> str:
    """Return the error for step times whose plan is no longer valid."""
    reason = news.removeprefix(PLANNED_AGAIN)
    return (
        f"{reason} Step times do not record their layout, and the layout that ran is no longer "
        "stored. Pass the run's event log with --events, or plan the spec that ran "
        f"(seatrial plan {spec_file}) and pass the times again."
    )
