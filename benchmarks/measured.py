# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run a program to its end and measure it: processor time, wall-clock time, memory."""

import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.tools.page_parts import ROOT


@dataclass(frozen=True, slots=True)
class Run:
    cpu: float
    """CPU-seconds of the program and of all descendants that were waited for."""
    wall: float
    memory: int
    """Largest bytes that any one of its processes held."""
    output: str


def measure(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    cwd: Path | None = None,
    codes: Collection[int] = (0,),
) -> Run:
    """Run a program; end with its error output if it ends with another exit code."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        variables = {**os.environ, **(environment or {})}
        process = subprocess.Popen(argv, stdout=output, stderr=errors, env=variables, cwd=cwd)
        # Unlike RUSAGE_CHILDREN, this is of one child; the kernel has added up its own children.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode not in codes:
            said = errors.read().decode(errors="replace")[-4000:]
            raise SystemExit(f"{' '.join(argv)}\nended with {process.returncode}:\n{said}")
        text = output.read().decode()
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss << 10, text)


def measure_here(
    argv: Sequence[str], directory: Path, codes: Collection[int] = (0,), **variables: str
) -> Run:
    """Run a program in a directory with this checkout as if pip had installed it: compiled."""
    environment = {
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONPYCACHEPREFIX": str(directory / "pycache"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    return measure(argv, environment | variables, cwd=directory, codes=codes)
