# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What processes can still tell before they are ended, or have left behind.

Kept beside the event log: a directory for each incident, with the last heartbeat and the state of
every process, the Python stack of those that live, and the dumps of NCCL's flight recorder. Those
dumps are pickles: they are moved, never opened here.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seatrial.monitoring.processes import PROCESSES, state
from seatrial.worker.supervisor.beats import Beat

LAST_WORDS = "last-words"
"""The directory beside the event log."""
FLIGHTS = "flight-rank-"
"""How the dumps of the flight recorder begin; torch appends the rank."""
DUMP_SECONDS = 20.0
"""How long one stack may take."""


def recorder_variables(directory: Path) -> dict[str, str]:
    """What makes torch keep NCCL's last calls, and write them when one times out."""
    return {
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(directory / FLIGHTS),
        "TORCH_FR_DUMP_TEMP_FILE": str(directory / FLIGHTS),
    }


@dataclass(frozen=True, slots=True)
class Told:
    """What was collected."""

    directory: Path
    """Where it is; empty where nothing could be written."""
    states: Mapping[int, str]
    """What the process of each rank did, as a letter of the kernel; empty when it had ended."""
    stacks: int
    """Stacks that could be read."""
    flights: int
    """Dumps of the flight recorder."""


def collect(
    where: Path, beats: Iterable[Beat], heartbeats: Path, now: float, python: str = sys.executable
) -> Told:
    """Write down what the processes of this node can tell; `python` is what they run."""
    states: dict[int, str] = {}
    lines: list[str] = []
    stacks = flights = 0
    with suppress(OSError):
        where.mkdir(parents=True, exist_ok=True)
    for beat in beats:
        states[beat.rank] = state(beat.process)
        lines.append(_line(beat, states[beat.rank], now))
        stack = stack_of(beat.process, python) if states[beat.rank] else ""
        if stack:
            stacks += _write(where / f"stack-rank-{beat.rank}.txt", stack)
    _write(where / "processes.txt", "".join(lines))
    for dump in heartbeats.glob(f"{FLIGHTS}*"):
        with suppress(OSError):
            shutil.move(dump, where / dump.name)
            flights += 1
    return Told(where, states, stacks, flights)


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
        return f"no stack: {error}\n"
    return done.stdout or f"no stack: {done.stderr}"


def _py_spy(python: str) -> str | None:
    """The program, beside the Python of the processes or on the path."""
    beside = Path(python).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _line(beat: Beat, letter: str, now: float) -> str:
    waits = ""
    with suppress(OSError):
        waits = (PROCESSES / str(beat.process) / "wchan").read_text().strip("0\n")
    return (
        f"rank {beat.rank}, process {beat.process}: {beat.phase}, step {beat.step}, "
        f"silent for {now - beat.since:.1f} s, state {letter or 'ended'}"
        f"{', waits in ' + waits if waits else ''}\n"
    )


def _write(path: Path, text: str) -> bool:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        return False
    return True
