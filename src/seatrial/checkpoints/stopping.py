# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Exit codes of a worker for which a restart would not help."""

from enum import IntEnum

from seatrial.errors import SeatrialError
from seatrial.findings import Finding


class StopCode(IntEnum):
    """Exit codes of a worker that should not be restarted unchanged."""

    NO_PROGRESS = 81
    """Several consecutive starts produced no new checkpoint."""
    NO_CHECKPOINT = 82
    """The checkpoint to start or resume from cannot be used or cannot be fetched."""
    STALE = 83
    """A later start has replaced this one."""


class StopError(SeatrialError):
    """The worker must exit. The message is its finding."""

    def __init__(self, code: StopCode, said: str) -> None:
        self.code = code
        super().__init__(said)


def stop(code: StopCode, finding: Finding) -> StopError:
    """Return the error that stops a worker and reports a finding."""
    return StopError(code, f"{finding.code} {finding.one_line()}")
