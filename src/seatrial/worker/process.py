# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Process control: parent-death signal, exit codes, and ptrace permissions."""

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
"""EX_TEMPFAIL of sysexits.h: training saved and exited before its last step."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61
"""From linux/prctl.h."""


def end_with_parent(parent: int | None = None) -> None:
    """Let the kernel kill this process when its parent dies, so that there are no orphans.

    If the parent's process ID is given and it has already exited, exit immediately.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def spared_teardown() -> Iterator[None]:
    """Exit this process after its last exit handler, without finalising the interpreter.

    A thread of torch that releases a tensor takes the GIL, and Python terminates threads that take
    it during finalisation; in C++ that aborts the process (pytorch/pytorch#190489). A rank whose
    last step was a collective would have finished its work but count as crashed.

    Enter this before any import that registers an exit handler: the first registered handler runs
    last. Files that are not closed lose their buffered data.
    """
    sys.excepthook = _print_redacted
    process, code = os.getpid(), 1

    def leave() -> None:
        if os.getpid() != process:  # a forked copy
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # no stream, or no reader
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
        # Python then exits by the signal, which is more informative than a code.
        atexit.unregister(leave)
        raise


def _print_redacted(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    """Print an uncaught error with secrets redacted, because it stays in the pod's log.

    torch calls this to print a traceback prefixed with the rank (`_distributed_excepthook`).
    """
    sys.stderr.write(redact("".join(format_exception(kind, error, where))))


def meant_code(code: object) -> int:
    """Return the exit code that Python derives from the argument of `sys.exit`."""
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, like the first process of a pod."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def let_look(process: int) -> None:
    """Let a process and its descendants read this process's stack.

    If the kernel restricts ptrace (Yama), only ancestors may; a stack dumper is not one.
    """
    _prctl(_PR_SET_PTRACER, process)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def process_began() -> float | None:
    """Return when this process was created, seconds since 1970; None if unknown."""
    try:
        # Ticks since the machine started: field 22 of proc_pid_stat(5), 20th after the name.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return round(time.time() - age, 3)


_NANOSECONDS = 1e-9


def core_wait_seconds() -> float:
    """Return the seconds that the calling thread has waited for a core; 0 if unknown."""
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
