# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inspect the processes of a training run on this host, and kill orphans.

A rank starts processes that write checkpoints. If the rank is killed, they would wait for it
forever. Every process of a training run carries a mark in its environment, by which Seatrial finds
it on Linux. On other systems, orphans remain.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

MARK = "SEATRIAL_TRAINING"
"""The environment variable that holds the mark."""
PROCESSES = Path("/proc")
STOPPED = frozenset("Tt")
"""States of a stopped process (by a signal or a debugger)."""
_GONE = frozenset("ZX")
"""States of a process that has exited and is not reaped yet."""
_EXITING = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h, among the flags of proc_pid_stat(5)."""
_DELETED = " (deleted)"
"""Suffix that the kernel appends to the path of a deleted file (proc_pid_fd(5))."""
_PASSES = 10


def new_mark() -> str:
    """Return a mark that no other training run has."""
    return uuid4().hex


def marked(mark: str) -> list[int]:
    """Return the processes that carry a mark."""
    return [int(entry.name) for entry in PROCESSES.glob("[0-9]*") if _carries(entry, mark)]


def command_line(process: int) -> tuple[str, ...]:
    """Return the argv of a process; empty if it has exited or is not readable."""
    try:
        words = (PROCESSES / str(process) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(word.decode(errors="surrogateescape") for word in words.split(b"\0")[:-1])


def command_lines() -> dict[int, tuple[str, ...]]:
    """Return the argv of every process on this host; empty without /proc."""
    numbers = (int(entry.name) for entry in PROCESSES.glob("[0-9]*"))
    return {number: command_line(number) for number in numbers}


def end_marked(mark: str, spared: Collection[int] = ()) -> list[int]:
    """Kill every process that carries a mark, except those in `spared`. Return the killed ones.

    Repeats the search, because one of them may start another process in the meantime.
    """
    ended: set[int] = set()
    for _ in range(_PASSES):
        found = {p for p in marked(mark) if p not in spared and p not in ended and state(p)}
        if not found:
            break
        for process in found:
            end(process)
        ended |= found
    return sorted(ended)


def end(process: int) -> None:
    """Kill a process, even if it is stopped. Ignore one that has already exited."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGKILL)


def state(process: int) -> str:
    """Return the kernel's state letter of a process; empty if it has exited."""
    letter = _stat_field(process, 0)
    return "" if letter in _GONE else letter


def begun(process: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if it has exited."""
    return int(_stat_field(process, 19) or 0)


def is_exiting(process: int) -> bool:
    """True if a process is exiting: its command line is gone, but its locks are still held.

    The kernel frees memory first, which takes a third of a second per GiB, then files.
    """
    return bool(state(process)) and bool(int(_stat_field(process, 6) or 0) & _EXITING)


def parent(process: int) -> int:
    """Return the parent of a process; 0 if it is gone."""
    return int(_stat_field(process, 1) or 0)


def children(parent: int) -> list[int]:
    found: set[int] = set()
    for task in (PROCESSES / str(parent) / "task").glob("[0-9]*"):
        with suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return sorted(found)


def open_files(process: int) -> list[tuple[Path, os.stat_result]]:
    """Return the open files of a process with their current paths; empty if not readable.

    A moved file has its new path. A deleted file has its last path, and no links.
    """
    found = []
    try:
        for entry in os.scandir(PROCESSES / str(process) / "fd"):
            # The process may close it in the meantime.
            with suppress(OSError):
                path = os.readlink(entry.path).removesuffix(_DELETED)
                found.append((Path(path), os.stat(entry.path)))
    except OSError:
        return []
    return found


def variables(process: int) -> dict[str, str]:
    """Return the initial environment of a process; empty if not readable."""
    try:
        words = (PROCESSES / str(process) / "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode(errors="replace").partition("=") for word in words if word)
    return {name: value for name, _, value in pairs}


def _stat_field(process: int, place: int) -> str:
    """Return a field of /proc/PID/stat, counted after the name; empty if there is none."""
    try:
        # The name may contain any character (proc_pid_stat(5)).
        return (PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()[place]
    except (OSError, IndexError):
        return ""


def _carries(entry: Path, mark: str) -> bool:
    # The process may exit in the meantime, and other users' processes are not readable.
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
    return False
