# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Wait for files that another node has written: a mount may show them late.

A mounted object store caches that a file does not exist, and its size, for seconds or minutes.
"""

import os
import time
from collections.abc import Callable
from math import isfinite

DEFAULT_SECONDS = 10.0
"""How long a file system of a network may take to show a file."""
VARIABLE = "SEATRIAL_VISIBLE_AFTER_SECONDS"
"""Variable with the time of the run's storage tier, if it is a different one."""
_PAUSE = 0.1


def visible_after_seconds() -> float:
    """Return how long this run's storage may take to show what another node has written."""
    try:
        seconds = float(os.environ.get(VARIABLE, ""))
    except ValueError:
        return DEFAULT_SECONDS
    return seconds if isfinite(seconds) and seconds >= 0 else DEFAULT_SECONDS


def wait_until(is_visible: Callable[[], bool], seconds: float) -> bool:
    """Look at least once, and again until the time is up. Return the last result."""
    until = time.monotonic() + seconds
    while not is_visible():
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE)
    return True
