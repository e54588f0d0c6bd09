# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of a run that is looked at, and what it says of time and memory."""

from dataclasses import dataclass
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.errors import SeatrialError
from seatrial.monitoring.prediction import Forecast
from seatrial.monitoring.utilisation import basis_of
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import basis
from seatrial.planning.search.planner import constants_of, plan_with, priced
from seatrial.planning.search.pose import problem_of
from seatrial.planning.search.trust import time_error
from seatrial.runs.kept_plan import find
from seatrial.spec.loader import load


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with what it says."""

    plan: Plan
    """The plan."""
    forecast: Forecast | None
    """What it says of time and memory; nothing on a host without GPUs."""


def planned(spec_file: Path, beside: Path, catalog: Catalog) -> Planned | None:
    """The plan of a spec, with the choices kept in a directory; nothing where there is none now.

    Whoever looks at a run must not be kept from it by a spec that no longer resolves.
    """
    try:
        loaded = load(spec_file, ())
        found = find(loaded, catalog, beside / spec_file.name)
        plan = plan_with(loaded, catalog, found.choices or {})
        problem = problem_of(loaded.spec, basis(loaded, catalog), catalog)
        constants = constants_of(problem, found.calibration)
        chosen = priced(plan, problem, constants)
    except (SeatrialError, OSError, ValueError, TypeError, KeyError):
        return None
    if chosen is None or constants is None:
        return Planned(plan, None)
    error = time_error(chosen.workload, constants)
    worth = basis_of(chosen.workload, chosen.time)
    return Planned(plan, Forecast(chosen.time, chosen.memory, worth, error.nine_of_ten))
