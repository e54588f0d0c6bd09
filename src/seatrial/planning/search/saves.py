# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often a run saves."""

from seatrial.catalog.catalog import Catalog
from seatrial.planning.plan import Plan
from seatrial.planning.search.outcome import Priced


def save_interval(plan: Plan, chosen: Priced | None, catalog: Catalog) -> int:
    """Ten saves in a short run, one every 1000 steps in a long one."""
    return max(1, min(1000, plan.length.steps // 10))
