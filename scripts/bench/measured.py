# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run a program and measure it with all of its descendants."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """What a program took."""

    cpu: float
    """CPU-seconds of the program and of all descendants that were waited for."""
    wall: float
    """Seconds from its start to its end."""
    memory: int
    """Largest bytes that any one of its processes held."""
    output: str
    """What it printed."""


def measure(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a program to its end."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        process = subprocess.Popen(
            words, stdout=output, stderr=errors, env={**os.environ, **(environment or {})}
        )
        # Unlike RUSAGE_CHILDREN, this is of one child; the kernel has added up its own children.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            said = errors.read().decode(errors="replace")[-4000:]
            raise SystemExit(f"{' '.join(words)}\nended with {process.returncode}:\n{said}")
        text = output.read().decode()
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss << 10, text)
