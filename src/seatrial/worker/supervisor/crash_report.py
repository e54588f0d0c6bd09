# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Crash reports: evidence from processes before they are killed, and from their dumps.

Each incident has a directory next to the event log, with the last heartbeat and the state of every
process, the Python stacks of the live processes, and the dumps of NCCL's flight recorder. The dumps
are pickles: this module copies them and never opens them.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seatrial.monitoring.processes import PROCESSES, state
from seatrial.secrets.redaction import redact
from seatrial.storage.state_files import FILE_MODE, make_directory, write_state
from seatrial.worker.supervisor.heartbeats import Beat

LAST_WORDS = "last-words"
"""The directory of crash reports, next to the event log."""
FLIGHTS = "flight-rank-"
"""Prefix of the flight recorder's dumps; torch appends the rank."""
DUMP_SECONDS = 20.0
"""Timeout for one stack dump."""
DUMP_FILE = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
"""The path to which torch writes dumps, without the rank; in a pod, the manifest sets it."""
_NO_STACK = "no stack"


def recorder_variables(directory: Path) -> dict[str, str]:
    """Return the variables that make torch record NCCL's calls and dump them on a timeout."""
    return {
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        DUMP_FILE: str(directory / FLIGHTS),
    }


@dataclass(frozen=True, slots=True)
class CrashReport:
    directory: Path
    """The directory of the report."""
    stacks: int
    """Number of stacks that could be read."""
    flights: int
    """Number of flight recorder dumps."""


def collect(
    where: Path, beats: Iterable[Beat], heartbeats: Path, now: float, python: str = sys.executable
) -> CrashReport:
    """Write a crash report about the processes on this node; `python` is their interpreter."""
    every = list(beats)
    with suppress(OSError):
        make_directory(where)
    _write(where / "processes.txt", "".join(_line(beat, now) for beat in every))
    # Dump in parallel: a node has eight processes, and each dump may take until its timeout.
    with ThreadPoolExecutor(max(1, len(every))) as pool:
        found = list(pool.map(lambda beat: stack_of(beat.process, python), every))
    stacks = 0
    for beat, stack in zip(every, found, strict=True):
        kept = bool(stack) and _write(where / f"stack-rank-{beat.rank}.txt", stack)
        stacks += kept and not stack.startswith(_NO_STACK)
    return CrashReport(
        where, stacks, sum(_copy_dump(where, beat, heartbeats, now) for beat in every)
    )


def _copy_dump(where: Path, beat: Beat, heartbeats: Path, now: float) -> bool:
    """Copy a rank's dump, if it is newer than the rank's last heartbeat."""
    dump = Path(os.environ.get(DUMP_FILE, str(heartbeats / FLIGHTS)) + str(beat.rank))
    silent_since = time.time() - (now - beat.since)
    try:
        if dump.stat().st_mtime < silent_since:
            return False
        kept = where / f"{FLIGHTS}{beat.rank}"
        kept.touch(FILE_MODE)
        shutil.copyfile(dump, kept)
    except OSError:
        return False
    return True


def stack_of(process: int, python: str = sys.executable) -> str:
    """Return a process's Python stack without pausing the process, or why there is no stack."""
    program = _py_spy(python)
    if program is None:
        return ""
    # py-spy cannot pause a stopped process, and the stack of a hung process does not change anyway.
    argv = [program, "dump", "--nonblocking", "--pid", str(process)]
    try:
        done = subprocess.run(  # noqa: S603  (our own argv, no shell)
            argv, capture_output=True, text=True, timeout=DUMP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{_NO_STACK}: {error}\n"
    return done.stdout or f"{_NO_STACK}: {done.stderr}"


def _py_spy(python: str) -> str | None:
    """Find py-spy next to the processes' Python interpreter, or on the PATH."""
    beside = Path(python).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _line(beat: Beat, now: float) -> str:
    letter, waits = state(beat.process), ""
    with suppress(OSError):
        waits = (PROCESSES / str(beat.process) / "wchan").read_text().strip("0\n")
    return (
        f"rank {beat.rank}, process {beat.process}: {beat.phase}, step {beat.step}, "
        f"no heartbeat for {now - beat.since:.1f} s, state {letter or 'exited'}"
        f"{', waits in ' + waits if waits else ''}\n"
    )


def _write(path: Path, text: str) -> bool:
    try:
        write_state(path, redact(text), durable=False)
    except OSError:
        return False
    return True
