# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that end with the process that started them, and who may look into them."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61
"""From linux/prctl.h."""


def end_with_parent(parent: int | None = None) -> None:
    """Let the system kill this process when its parent is killed, so that none is left behind.

    A parent that has ended before, where its number is known, is noticed as well.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, as the first process of a pod is."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def let_look(process: int) -> None:
    """Let that process and its descendants read this one's stack.

    Where the kernel restricts ptrace (Yama), only ancestors may; a stack dumper is none.
    """
    _prctl(_PR_SET_PTRACER, process)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
