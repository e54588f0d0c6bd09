# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Memory of this process."""

import resource
import sys
from pathlib import Path


def memory_in_use() -> int:
    """Bytes of memory that this process holds; where the system does not say, its peak."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10
    return int(pages) * resource.getpagesize()
