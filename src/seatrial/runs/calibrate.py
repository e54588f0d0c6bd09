# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calibrating a run: measured steps against what the planner predicts without a calibration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.errors import UsageError
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.planning.calibration import (
    Calibration,
    calibrate,
    calibrated,
    choose_steps,
    write_calibration,
)
from seatrial.planning.resolve import basis
from seatrial.planning.search.planner import plan_run
from seatrial.planning.search.pose import measured_on
from seatrial.planning.timing.constants import Constants
from seatrial.runs.kept_plan import find, plan_file
from seatrial.spec.loader import LoadedSpec


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, where it is kept, and what it changes."""

    calibration: Calibration
    """The factor and where it comes from."""
    file: Path
    """Where it is kept."""
    before: Constants
    """The constants without it."""
    after: Constants
    """The constants with it."""


def logged_steps(log: Path) -> list[list[float]]:
    """Seconds of the steps after each start, from a run's event log; skipped steps are left out."""
    if not log.is_file():
        raise UsageError(f"{log} is not a file. Give the event log that the run writes.")
    starts: list[list[float]] = [[]]
    for event in read_events(log):
        if event.kind is EventKind.START:
            starts.append([])
        elif event.kind is EventKind.STEP and not event.values.get("skipped"):
            seconds = event.values.get("seconds")
            if isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0:
                starts[-1].append(float(seconds))
    if not any(starts):
        raise UsageError(f"{log} tells of no steps with their seconds. Is it an event log?")
    return [times for times in starts if times]


def calibrate_run(
    loaded: LoadedSpec,
    catalog: Catalog,
    spec_file: Path,
    starts: Sequence[Sequence[float]],
    *,
    warm_up: int,
) -> Calibrated:
    """Calibrate a run by measured steps, and keep the result beside its spec."""
    found = find(loaded, catalog, spec_file)
    run = plan_run(loaded, catalog, kept=found.choices)
    if run.chosen is None or run.constants is None:
        raise UsageError(
            f"{loaded.spec.name} has no GPU, and only times on GPUs are predicted. "
            "Set cluster.node_type to what the run was measured on."
        )
    machines = measured_on(loaded.spec, basis(loaded, catalog))
    result = calibrate(
        run.chosen.time.total, choose_steps(starts, warm_up), machines, run.constants.version
    )
    file = write_calibration(result, plan_file(spec_file, loaded.spec.name).parent)
    return Calibrated(result, file, run.constants, calibrated(run.constants, result))
