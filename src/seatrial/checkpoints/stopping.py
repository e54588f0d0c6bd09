# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Why a worker does not start, or stops, and with which exit code: a restart would not help."""

from enum import IntEnum

from seatrial.errors import SeatrialError
from seatrial.findings import Finding


class StopCode(IntEnum):
    """Exit codes of a worker that should not be started again as it is."""

    NO_PROGRESS = 81
    """Several starts in a row have come to no new checkpoint."""
    NO_CHECKPOINT = 82
    """What the run is to begin or go on from is there and cannot be used, or cannot be had."""
    STALE = 83
    """A later start has replaced this one."""


class StopError(SeatrialError):
    """The worker must end; its finding says why."""

    def __init__(self, code: StopCode, said: str) -> None:
        """Keep the exit code and what to say."""
        self.code = code
        super().__init__(said)


def stop(code: StopCode, finding: Finding) -> StopError:
    """The error that ends a worker with a finding."""
    return StopError(code, f"{finding.code} {finding.one_line()}")
