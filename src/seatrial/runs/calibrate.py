# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calibrating a run: measured steps against what the planner predicts without a calibration."""

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
    """A calibration, where it is kept, and what it changes."""

    calibration: Calibration
    """The factor and where it comes from."""
    file: Path
    """Where it is kept."""
    before: StepTimeError
    """The error to expect without it."""
    after: StepTimeError
    """The error to expect of other layouts with it."""
    news: str = ""
    """What a person should know of the plan that was compared with; empty when nothing."""


def calibrate_run(
    loaded: LoadedSpec,
    catalog: Catalog,
    spec_file: Path,
    measured: Path | Sequence[float],
    *,
    is_overridden: bool = False,
) -> Calibrated:
    """Calibrate a run by its event log, or by times, and keep the result beside its spec.

    Times do not say what they were measured with, so they are taken for the kept plan's, and are
    refused where that no longer holds. A spec with overrides has no kept plan.
    """
    basis = resolve_basis(loaded, catalog)
    found = find(basis, spec_file)
    news = "" if is_overridden and found.choices is None else found.news
    if news and found.choices is None and not isinstance(measured, Path):
        raise UsageError(_stale(news, spec_file))
    run = plan_run(basis, kept=found.choices)
    if run.chosen is None or run.constants is None:
        raise UsageError(
            f"{loaded.spec.name} has no GPU, and only times on GPUs are predicted. "
            "Set cluster.node_type to what the run was measured on."
        )
    machines = measured_on(basis)
    if isinstance(measured, Path):
        steps = choose_steps(of_this_plan(logged_steps(measured), run.plan, measured))
    else:
        # Who writes times down has left out the first ones already.
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
    """Why times are not compared with a plan that no longer holds."""
    reason = news.removeprefix(PLANNED_AGAIN)
    return (
        f"{reason} Times do not say with which layout they were measured, and the one that ran is "
        "no longer kept. Give the event log of the run with --events, or plan with the spec that "
        f"ran (seatrial plan {spec_file}) and give the times again."
    )
