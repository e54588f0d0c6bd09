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
"""EX_TEMPFAIL from sysexits.h: training saved and exited before its last step."""
UNSUITABLE = 78
"""EX_CONFIG from sysexits.h: the environment lacks what the run needs, so a restart cannot help."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61
"""From linux/prctl.h."""


def end_with_parent(parent: int | None = None) -> None:
    """Make the kernel kill this process when its parent dies, so that there are no orphans.

    If `parent` is set and that process has already exited, exit immediately.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def spared_teardown() -> Iterator[None]:
    """Exit this process after its last exit handler, without finalising the interpreter.

    A torch thread that releases a tensor acquires the GIL. During finalisation, Python terminates
    threads that acquire the GIL, which aborts the process in C++ (pytorch/pytorch#190489). A rank
    whose last operation was a collective would have finished its work but be reported as crashed.

    Enter this context before any import that registers an exit handler: the handler that is
    registered first runs last. Files that are not closed lose their buffered data.
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
        # Python then exits with the signal, which is more informative than an exit code.
        atexit.unregister(leave)
        raise


def _print_redacted(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    """Print an uncaught error with secrets redacted, because the pod's log keeps it.

    torch calls this to print a traceback prefixed with the rank (`_distributed_excepthook`).
    """
    sys.stderr.write(redact("".join(format_exception(kind, error, where))))


def meant_code(code: object) -> int:
    """Return the exit code that Python derives from the argument to `sys.exit`."""
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, like the first process in a pod."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def let_look(process: int) -> None:
    """Allow a process and its descendants to read this process's stack.

    If the kernel restricts ptrace (Yama), only ancestors may read it, and a stack dumper is not an
    ancestor.
    """
    _prctl(_PR_SET_PTRACER, process)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def process_began() -> float | None:
    """Return when this process was created, in seconds since 1970; None if unknown."""
    try:
        # Ticks since boot: field 22 in proc_pid_stat(5), the 20th after the name.
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
