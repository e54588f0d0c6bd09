# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the supervisor tells of itself and its processes, in one file that probes read."""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "status.json"


@dataclass(frozen=True, slots=True)
class Status:
    """How a node's processes are."""

    time: float
    """When it was written, by the clock that all processes of a host share."""
    phase: str
    """What the processes are at."""
    step: int
    """The newest step that is done on this node."""
    silent: float
    """Seconds since a process last told something."""
    limit: float
    """How many it may be."""
    restarts: int
    """How often processes were started again."""
    ended: str = ""
    """Why it is over; empty while it is not."""


def write_status(directory: Path, status: Status) -> None:
    """Put the status in place of the one before; a reader never sees half."""
    beside = directory / f".{FILE}.{os.getpid()}"
    try:
        beside.write_text(json.dumps(asdict(status)), encoding="utf-8")
        beside.replace(directory / FILE)
    except OSError:
        # A full disk has room for its name, and the next try for one more.
        with suppress(OSError):
            beside.unlink()


def read_status(directory: Path) -> Status | None:
    """The status; none where there is none yet."""
    try:
        return Status(**json.loads((directory / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
