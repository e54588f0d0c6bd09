# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How a program of this folder speaks with who started it: lines of JSON on standard output.

While it works, `{"doing": "verifying", "done": 5, "total": 9}`; at its end `{"result": …}`, or
`{"findings": […]}` where a user can mend it, or `{"failed": "…"}`.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from seatrial.errors import FindingsError, SeatrialError

SECONDS = 0.5
"""How often progress is told."""

Tell = Callable[[str, int, int], None]
"""Told what is being done, and how many bytes of how many are done."""


def teller() -> Tell:
    """Tells at most twice a second."""
    said = 0.0

    def tell(doing: str, done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= SECONDS:
            said = now
            _line({"doing": doing, "done": done, "total": total})

    return tell


def answer(work: Callable[[Tell], dict[str, Any]]) -> None:
    """Do the work and print what came of it; exit code 1 where nothing did."""
    try:
        _line({"result": work(teller())})
    except FindingsError as error:
        _line({"findings": [finding.to_dict() for finding in error.findings]})
        sys.exit(1)
    except (SeatrialError, OSError) as error:
        _line({"failed": str(error)})
        sys.exit(1)


def _line(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
