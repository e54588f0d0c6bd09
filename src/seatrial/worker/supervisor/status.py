# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The supervisor's status file, which probes read."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from seatrial.storage.state_files import DamagedError, decode, read_json, write_state

FILE = "status.json"


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
    """The state of the processes on a node."""

    time: float
    """When the status was written, on the monotonic clock."""
    phase: str
    """The phase of the processes."""
    step: int
    """The newest completed step on this node."""
    silent: float
    """Seconds since the newest heartbeat."""
    limit: float
    """The timeout in seconds."""
    restarts: int
    """Number of restarts."""
    ended: str = ""
    """Why the attempt ended; empty while it is running."""


def write_status(directory: Path, status: SupervisorStatus) -> None:
    """Replace the status atomically."""
    # If the disk is full, the next write may succeed. The file is not needed after a reboot.
    with suppress(OSError):
        write_state(directory / FILE, json.dumps(asdict(status)), durable=False)


def read_status(directory: Path) -> SupervisorStatus | None:
    """Return the status; None if there is none yet."""
    try:
        return decode(SupervisorStatus, read_json(directory / FILE))
    except (OSError, DamagedError):
        return None
