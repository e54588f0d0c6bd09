# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for the supervisor of a node's processes."""

from enum import StrEnum


class SupervisorCode(StrEnum):
    """Events in a run's processes on a node."""

    DIED = "ST-SUPERVISOR-001"
    """A process of the run was killed by a signal or exited with an error."""
    SILENT = "ST-SUPERVISOR-002"
    """Processes have not finished a step within the timeout for a step."""
    MOVED = "ST-SUPERVISOR-003"
    """Processes that exceeded their timeout recovered on their own."""
    AGENT = "ST-SUPERVISOR-004"
    """torchrun exited, together with its processes."""
    NO_PROGRESS = "ST-SUPERVISOR-005"
    """The run was restarted repeatedly without making progress."""
    ASKED = "ST-SUPERVISOR-006"
    """The pod received a termination signal; the run saves a checkpoint and exits."""
    UNSAVED = "ST-SUPERVISOR-007"
    """The pod received a termination signal, but its ranks exited without saving."""
