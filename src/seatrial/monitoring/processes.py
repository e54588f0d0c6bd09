# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Processes of a training on this host: how they are, and ending what one leaves behind.

A rank starts processes of its own to write checkpoints, and one that is killed cannot end them:
they would wait for it for ever. Every process of a training carries the training's mark in its
environment, by which they are found on Linux; elsewhere they stay.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

MARK = "SEATRIAL_TRAINING"
"""The variable that holds the mark."""
PROCESSES = Path("/proc")
STOPPED = frozenset("Tt")
"""States of a process that somebody has stopped, by a signal or to look into it."""
_GONE = frozenset("ZX")
"""A process that has ended and waits to be noticed by its parent."""
_EXITING = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h, among the flags of proc_pid_stat(5)."""
_DELETED = " (deleted)"
"""What the kernel appends to the path of a file that has no name any more (proc_pid_fd(5))."""
_PASSES = 10


def new_mark() -> str:
    """A mark that no other training has."""
    return uuid4().hex


def marked(mark: str) -> list[int]:
    """The processes that carry a mark."""
    return [int(entry.name) for entry in PROCESSES.glob("[0-9]*") if _carries(entry, mark)]


def command_line(process: int) -> tuple[str, ...]:
    """The words that a process was started with; empty when it has ended or cannot be seen."""
    try:
        words = (PROCESSES / str(process) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(word.decode(errors="surrogateescape") for word in words.split(b"\0")[:-1])


def command_lines() -> dict[int, tuple[str, ...]]:
    """The words that every process of this host was started with; empty without /proc."""
    numbers = (int(entry.name) for entry in PROCESSES.glob("[0-9]*"))
    return {number: command_line(number) for number in numbers}


def end_marked(mark: str, spared: Collection[int] = ()) -> list[int]:
    """Kill every process that carries a mark, but for those that are spared; which they were.

    More than once: one of them may start another while the rest is looked for.
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
    """Kill a process, also one that is stopped; one that is gone already is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGKILL)


def state(process: int) -> str:
    """The letter by which the kernel tells what a process does; empty when it has ended."""
    letter = _told(process, 0)
    return "" if letter in _GONE else letter


def begun(process: int) -> int:
    """When a process began, in ticks since the host did; 0 when it has ended."""
    return int(_told(process, 19) or 0)


def is_exiting(process: int) -> bool:
    """True if a process is ending and has not ended: its command line is gone, its locks are not.

    The kernel gives back memory first, which takes a third of a second for 1 GiB, then files.
    """
    return bool(state(process)) and bool(int(_told(process, 6) or 0) & _EXITING)


def children(parent: int) -> list[int]:
    """The processes that have a process as their parent."""
    found: set[int] = set()
    for task in (PROCESSES / str(parent) / "task").glob("[0-9]*"):
        with suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return sorted(found)


def open_files(process: int) -> list[tuple[Path, os.stat_result]]:
    """The files that a process holds open, each where it is now; empty if it cannot be seen.

    A file that was moved has its new path; one that was deleted has its last, and no links.
    """
    found = []
    try:
        for entry in os.scandir(PROCESSES / str(process) / "fd"):
            # It may be closed while it is looked at.
            with suppress(OSError):
                path = os.readlink(entry.path).removesuffix(_DELETED)
                found.append((Path(path), os.stat(entry.path)))
    except OSError:
        return []
    return found


def variables(process: int) -> dict[str, str]:
    """The environment that a process was started with; empty where it cannot be read."""
    try:
        words = (PROCESSES / str(process) / "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode(errors="replace").partition("=") for word in words if word)
    return {name: value for name, _, value in pairs}


def _told(process: int, place: int) -> str:
    """A word that the kernel tells of a process, counted after its name; empty without one."""
    try:
        # The name may hold anything (proc_pid_stat(5)).
        return (PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()[place]
    except (OSError, IndexError):
        return ""


def _carries(entry: Path, mark: str) -> bool:
    # A process may end while it is looked at, and those of others cannot be read.
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
    return False
