# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for the end of a run."""

import time
from collections.abc import Callable

from seatrial.runs.status import Status

LOOK_SECONDS = 5.0
"""How often a run is looked at."""


def wait(
    look: Callable[[], Status],
    limit: float | None,
    saw: Callable[[Status], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Status:
    """Look at a run until it is over or time is up; the last status.

    Looking, rather than watching, sees the same after any outage, and a run takes hours.
    """
    began = clock()
    while True:
        found = look()
        saw(found)
        if found.is_over:
            return found
        left = None if limit is None else limit - (clock() - began)
        if left is not None and left <= 0:
            return found
        sleep(LOOK_SECONDS if left is None else min(LOOK_SECONDS, max(left, 0.05)))
