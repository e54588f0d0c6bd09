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
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import format_exception
from types import TracebackType

from seatrial.secrets.redaction import redact

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
    sys.excepthook = _print_redacted
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


def _print_redacted(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    """Print an error that ends the process, without secrets: it stays in the log of the pod.

    torch calls this for a traceback that begins with the rank (`_distributed_excepthook`).
    """
    sys.stderr.write(redact("".join(format_exception(kind, error, where))))


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


def process_began() -> float | None:
    """When this process was made, seconds since 1970; none where the kernel does not tell."""
    try:
        # Ticks since the machine started: field 22 of proc_pid_stat(5), 20th after the name.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return round(time.time() - age, 3)


_NANOSECONDS = 1e-9


def core_wait_seconds() -> float:
    """Seconds that the calling thread has waited; 0 where the kernel does not tell."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(os.read(file, 128).split()[1]) * _NANOSECONDS
    except (OSError, ValueError, IndexError):
        return 0.0
    finally:
        os.close(file)
