# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plan that is checked: searched for only where the spec leaves something open.

The planner also searches where everything is given, to say what it would have chosen; that is most
of its time, and the check does not tell it.
"""

from seatrial.catalog.catalog import Catalog
from seatrial.planning.calibration import Calibration
from seatrial.planning.resolve import basis
from seatrial.planning.search.fill import Choices, open_fields
from seatrial.planning.search.planner import PlannedRun, constants_of, plan_run, plan_with, priced
from seatrial.planning.search.pose import problem_of
from seatrial.spec.loader import LoadedSpec


def planned(
    loaded: LoadedSpec,
    catalog: Catalog,
    *,
    calibration: Calibration | None = None,
    kept: Choices | None = None,
) -> PlannedRun:
    """The plan of a spec with its memory and time; raises with every finding when there is none."""
    found = basis(loaded, catalog)
    if open_fields(loaded.spec, found.architecture) and kept is None:
        return plan_run(loaded, catalog, calibration=calibration)
    problem = problem_of(loaded.spec, found, catalog)
    constants = constants_of(problem, calibration)
    choices = dict(kept or {})
    plan = plan_with(loaded, catalog, choices)
    chosen = priced(plan, problem, constants)
    return PlannedRun(plan, choices, problem, chosen, constants, None, searched=False)
