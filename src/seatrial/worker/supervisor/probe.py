# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.supervisor.probe KIND DIRECTORY`: the kubelet's probes for a pod.

The supervisor itself kills hung processes and waits for long starts. Therefore a probe fails only
if the supervisor does not work: it never started (`startup`), its status is stale, or it does not
kill hung processes (`liveness`).
"""

import sys
import time
from enum import StrEnum
from pathlib import Path

from seatrial.worker.supervisor.status import SupervisorStatus, read_status

FRESH_SECONDS = 60.0
"""Maximum age of the status. The supervisor writes it every second; memory pressure delays it."""
TOLERANCE = 4.0
"""Multiple of the timeout by which the supervisor should have killed hung processes."""


class ProbeKind(StrEnum):
    """The kinds of Kubernetes probes that pods have."""

    STARTUP = "startup"
    """Fails until the supervisor has started."""
    LIVENESS = "liveness"
    """Fails if the container should be restarted."""


def trouble(kind: ProbeKind, status: SupervisorStatus | None, now: float) -> str:
    """Return why the probe fails; empty if it succeeds."""
    if status is None:
        return "the supervisor has not written its status yet"
    if now - status.time > FRESH_SECONDS:
        return f"the supervisor has not updated its status for {now - status.time:.0f} s"
    if kind is ProbeKind.LIVENESS and status.silent > TOLERANCE * status.limit > 0:
        return (
            f"no heartbeat for {status.silent:.0f} s, and the supervisor did not kill the processes"
        )
    return ""


def main(kind: str, directory: str) -> int:
    """Print the reason for a failure. Return the exit code."""
    found = trouble(ProbeKind(kind), read_status(Path(directory)), time.monotonic())
    if found:
        sys.stderr.write(f"seatrial: {found}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
