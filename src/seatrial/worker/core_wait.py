# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How long a thread has waited for a core, by the kernel's own books.

A rehearsal shares its host with whatever else runs there. The kernel counts for each thread how
long it was ready to run and something else ran (the second number of /proc/PID/task/TID/schedstat,
Documentation/scheduler/sched-stats.rst); that is no fault of the run's.
"""

import os

_NANOSECONDS = 1e-9


def of_this_thread() -> float:
    """Seconds that the calling thread has waited; 0 where the kernel does not tell."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(os.read(file, 128).split()[1]) * _NANOSECONDS
    except (OSError, ValueError, IndexError):
        return 0.0
    finally:
        os.close(file)
