# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes of the supervisor of a node's processes."""

from enum import StrEnum


class SupervisorCode(StrEnum):
    """Events of a run's processes on a node. The codes are stable."""

    DIED = "ST-SUPERVISOR-001"
    """A process of the run was killed by a signal or exited with an error."""
    SILENT = "ST-SUPERVISOR-002"
    """Processes have not finished a step for longer than a step of this run can take."""
    MOVED = "ST-SUPERVISOR-003"
    """Processes that exceeded their timeout resumed on their own."""
    AGENT = "ST-SUPERVISOR-004"
    """torchrun itself exited, and its processes with it."""
    NO_PROGRESS = "ST-SUPERVISOR-005"
    """The run was restarted repeatedly without making progress."""
    ASKED = "ST-SUPERVISOR-006"
    """The pod was asked to terminate; the run saves a checkpoint and exits."""
    UNSAVED = "ST-SUPERVISOR-007"
    """The pod was asked to terminate, and its ranks exited without saving."""
