# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Memory use of this process."""

import resource
import sys
from pathlib import Path


def memory_in_use() -> int:
    """Return the resident memory of this process in bytes, or its peak if that is unknown."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10
    return int(pages) * resource.getpagesize()
