# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for the end of a run."""

from collections.abc import Callable

from seatrial.runs.site import Site
from seatrial.runs.status import Status, status

LOOK_SECONDS = 5.0
"""How often a run is looked at."""


def wait(
    site: Site, run: str, limit: float | None, saw: Callable[[Status], None] = lambda _: None
) -> Status:
    """Look at a run until it is over or time is up; the last status.

    Looking, rather than watching, sees the same after any outage, and a run takes hours.
    """
    began = site.clock()
    while True:
        found = status(site, run)
        saw(found)
        if found.is_over:
            return found
        left = None if limit is None else limit - (site.clock() - began)
        if left is not None and left <= 0:
            return found
        site.sleep(LOOK_SECONDS if left is None else min(LOOK_SECONDS, max(left, 0.05)))
