# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ending what a training leaves behind.

A rank starts processes of its own to write checkpoints, and one that is killed cannot end them:
they would wait for it for ever. Every process of a training carries the training's mark in its
environment, by which they are found on Linux; elsewhere they stay.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

MARK = "SEATRIAL_TRAINING"
"""The variable that holds the mark."""
PROCESSES = Path("/proc")


def new_mark() -> str:
    """A mark that no other training has."""
    return uuid4().hex


def marked(mark: str) -> list[int]:
    """The processes that carry a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in PROCESSES.glob("[0-9]*"):
        # A process may end while it is looked at, and those of others cannot be read.
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_marked(mark: str) -> None:
    """Kill every process that carries a mark."""
    for process in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
