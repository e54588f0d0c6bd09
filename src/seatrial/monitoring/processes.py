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
_PASSES = 10


def new_mark() -> str:
    """A mark that no other training has."""
    return uuid4().hex


def marked(mark: str) -> list[int]:
    """The processes that carry a mark."""
    return [int(entry.name) for entry in PROCESSES.glob("[0-9]*") if _carries(entry, mark)]


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


def children(parent: int) -> list[int]:
    """The processes that have a process as their parent."""
    found: set[int] = set()
    for task in (PROCESSES / str(parent) / "task").glob("[0-9]*"):
        with suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return sorted(found)


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
