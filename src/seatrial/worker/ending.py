# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How processes end: with whoever started them, and with the code that they mean.

And who may look into them meanwhile.
"""

import atexit
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

UNFINISHED = 75
"""EX_TEMPFAIL of sysexits.h: a training that saved and ended before its last step."""

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


@contextmanager
def spared_teardown() -> Iterator[None]:
    """Let this process end after its last exit handler, with Python itself not taken down.

    A thread of torch that lets go of a tensor asks for Python's lock, and Python ends threads that
    ask for it while it goes down; in C++ that aborts the process (pytorch/pytorch#190489). A rank
    whose last step was an exchange with the others had done its work and counted as crashed.

    To be entered before anything is imported that registers an exit handler: the first one that is
    registered runs last. A file that nobody closes loses what it has not written.
    """
    process, code = os.getpid(), 1

    def leave() -> None:
        if os.getpid() != process:  # a copy of it
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # there is none, or no reader
                stream.flush()
        os._exit(code)

    atexit.register(leave)
    try:
        yield
        code = 0
    except SystemExit as wish:
        code = meant_code(wish.code)
        raise
    except KeyboardInterrupt:
        # Python ends by the signal then, which says more than a code.
        atexit.unregister(leave)
        raise


def meant_code(code: object) -> int:
    """The exit code that Python makes of what was given to `sys.exit`."""
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


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
