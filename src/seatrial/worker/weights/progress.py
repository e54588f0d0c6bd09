# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The protocol between a program in this folder and its parent: JSON lines on standard output.

Progress is `{"doing": "verifying", "done": 5, "total": 9}`. The last line is `{"result": …}`,
`{"findings": […]}` for problems that the user can fix, or `{"failed": "…"}`.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from seatrial.errors import FindingsError, SeatrialError

SECONDS = 0.5
"""Minimum interval between progress lines."""

Progress = Callable[[str, int, int], None]
"""Called with the current activity, the number of bytes done, and the total number of bytes."""


def printed_progress() -> Progress:
    """Return a callback that prints progress at most twice a second."""
    last = 0.0

    def report(doing: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS:
            last = now
            _line({"doing": doing, "done": done, "total": total})

    return report


def answer(work: Callable[[Progress], dict[str, Any]]) -> None:
    """Do the work and print the result. Exit with code 1 on failure."""
    try:
        _line({"result": work(printed_progress())})
    except FindingsError as error:
        _line({"findings": [finding.to_dict() for finding in error.findings]})
        sys.exit(1)
    except (SeatrialError, OSError) as error:
        _line({"failed": str(error)})
        sys.exit(1)


def _line(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
