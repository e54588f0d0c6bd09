# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Processes of a rehearsal end with the process that started them."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def end_with_parent() -> None:
    """Let the system kill this process when its parent is killed, so that none is left behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
