# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the supervisor tells of itself and its processes, in one file that probes read."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from seatrial.storage.state_files import DamagedError, decode, read_json, write_state

FILE = "status.json"


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
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


def write_status(directory: Path, status: SupervisorStatus) -> None:
    """Put the status in place of the one before; a reader never sees half."""
    # A full disk may have room for the next one. After a restart of the host nobody needs it.
    with suppress(OSError):
        write_state(directory / FILE, json.dumps(asdict(status)), durable=False)


def read_status(directory: Path) -> SupervisorStatus | None:
    """The status; none where there is none yet."""
    try:
        return decode(SupervisorStatus, read_json(directory / FILE))
    except (OSError, DamagedError):
        return None
