# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.supervisor.probe KIND DIRECTORY`: what the kubelet asks a pod.

The supervisor ends processes that hang by itself, and long starts are its own to wait for. So a
probe fails only where the supervisor does not do its work: it has never come up (`startup`), it
tells nothing any more, or it leaves silent processes alone (`liveness`).
"""

import sys
import time
from enum import StrEnum
from pathlib import Path

from seatrial.worker.supervisor.status import SupervisorStatus, read_status

FRESH_SECONDS = 60.0
"""A supervisor writes every second; a node under memory pressure is slower."""
TOLERANCE = 4.0
"""Times the limit after which silent processes should long have been ended."""


class ProbeKind(StrEnum):
    """What the kubelet wants to know."""

    STARTUP = "startup"
    """Whether it has come up."""
    LIVENESS = "liveness"
    """Whether it is to be left running."""


def trouble(kind: ProbeKind, status: SupervisorStatus | None, now: float) -> str:
    """Why the answer is no; empty when it is yes."""
    if status is None:
        return "the supervisor has told nothing yet"
    if now - status.time > FRESH_SECONDS:
        return f"the supervisor has told nothing for {now - status.time:.0f} s"
    if kind is ProbeKind.LIVENESS and status.silent > TOLERANCE * status.limit > 0:
        return f"processes have been silent for {status.silent:.0f} s and were not ended"
    return ""


def main(kind: str, directory: str) -> int:
    """Answer by the exit code, and say why."""
    found = trouble(ProbeKind(kind), read_status(Path(directory)), time.monotonic())
    if found:
        sys.stderr.write(f"seatrial: {found}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
