# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What processes can still tell before they are ended, or have left behind.

Kept beside the event log: a directory for each incident, with the last heartbeat and the state of
every process, the Python stack of those that live, and the dumps of NCCL's flight recorder. Those
dumps are pickles: they are copied, never opened here.
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
"""The directory beside the event log."""
FLIGHTS = "flight-rank-"
"""How the dumps of the flight recorder begin; torch appends the rank."""
DUMP_SECONDS = 20.0
"""How long one stack may take."""
DUMP_FILE = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
"""Where torch writes dumps, but for the rank; a pod is told so by its manifest."""
_NO_STACK = "no stack"


def recorder_variables(directory: Path) -> dict[str, str]:
    """What makes torch keep NCCL's last calls, and write them when one times out."""
    return {
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        DUMP_FILE: str(directory / FLIGHTS),
    }


@dataclass(frozen=True, slots=True)
class Told:
    directory: Path
    """Where it is; empty where nothing could be written."""
    stacks: int
    """Stacks that could be read."""
    flights: int
    """Dumps of the flight recorder."""


def collect(
    where: Path, beats: Iterable[Beat], heartbeats: Path, now: float, python: str = sys.executable
) -> Told:
    """Write down what the processes of this node can tell; `python` is what they run."""
    every = list(beats)
    with suppress(OSError):
        make_directory(where)
    _write(where / "processes.txt", "".join(_line(beat, now) for beat in every))
    # All at once: a node has eight, and each may take until its time is over.
    with ThreadPoolExecutor(max(1, len(every))) as pool:
        found = list(pool.map(lambda beat: stack_of(beat.process, python), every))
    stacks = 0
    for beat, stack in zip(every, found, strict=True):
        kept = bool(stack) and _write(where / f"stack-rank-{beat.rank}.txt", stack)
        stacks += kept and not stack.startswith(_NO_STACK)
    return Told(where, stacks, sum(_copy_dump(where, beat, heartbeats, now) for beat in every))


def _copy_dump(where: Path, beat: Beat, heartbeats: Path, now: float) -> bool:
    """Keep the dump of a rank, if it has written one since it fell silent."""
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
    """The Python stack of a process, without stopping it, or why there is none."""
    program = _py_spy(python)
    if program is None:
        return ""
    # A process that is stopped cannot be stopped once more, and one that hangs stays as it is.
    words = [program, "dump", "--nonblocking", "--pid", str(process)]
    try:
        done = subprocess.run(  # noqa: S603  (our own words, no shell)
            words, capture_output=True, text=True, timeout=DUMP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{_NO_STACK}: {error}\n"
    return done.stdout or f"{_NO_STACK}: {done.stderr}"


def _py_spy(python: str) -> str | None:
    """The program, beside the Python of the processes or on the path."""
    beside = Path(python).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _line(beat: Beat, now: float) -> str:
    letter, waits = state(beat.process), ""
    with suppress(OSError):
        waits = (PROCESSES / str(beat.process) / "wchan").read_text().strip("0\n")
    return (
        f"rank {beat.rank}, process {beat.process}: {beat.phase}, step {beat.step}, "
        f"silent for {now - beat.since:.1f} s, state {letter or 'ended'}"
        f"{', waits in ' + waits if waits else ''}\n"
    )


def _write(path: Path, text: str) -> bool:
    try:
        write_state(path, redact(text), durable=False)
    except OSError:
        return False
    return True
