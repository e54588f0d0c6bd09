# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""When this process was made, which is before any of our code runs."""

import os
import time
from pathlib import Path


def process_began() -> float | None:
    """When this process was made, seconds since 1970; none where the kernel does not tell."""
    try:
        # Ticks since the machine started: field 22 of proc_pid_stat(5), 20th after the name.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return round(time.time() - age, 3)
