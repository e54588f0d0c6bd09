# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which the supervisor of a node's processes reports."""

from enum import StrEnum


class SupervisorCode(StrEnum):
    """What can happen to the processes of a run on a node; the codes are stable."""

    DIED = "ST-SUPERVISOR-001"
    """A process of the run ended by a signal or with an error."""
    SILENT = "ST-SUPERVISOR-002"
    """Processes have not finished a step for longer than a step of this run can take."""
    MOVED = "ST-SUPERVISOR-003"
    """Processes that were silent for too long went on by themselves."""
    AGENT = "ST-SUPERVISOR-004"
    """torchrun itself ended, and its processes with it."""
    NO_PROGRESS = "ST-SUPERVISOR-005"
    """The run was started again and again and got no further."""
    ASKED = "ST-SUPERVISOR-006"
    """The pod was asked to end; the run saves and ends."""
    UNSAVED = "ST-SUPERVISOR-007"
    """The pod was asked to end, and its ranks ended without having saved."""
