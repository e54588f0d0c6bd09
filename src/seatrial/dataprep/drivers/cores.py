# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How many processes this machine, or this container, can run at a time."""

import math
import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_PERIOD_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, within the limit of its container."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limit = _limit()
    return max(1, min(cores, math.ceil(limit))) if limit else cores


def _limit() -> float | None:
    """The limit of the container, in cores; nothing when there is none."""
    try:
        if _QUOTA.exists():
            quota, period = _QUOTA.read_text(encoding="ascii").split()
        else:
            quota = _QUOTA_V1.read_text(encoding="ascii")
            period = _PERIOD_V1.read_text(encoding="ascii")
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):
        return None
