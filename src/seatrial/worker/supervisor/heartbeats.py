# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a process: a short line in its own file, overwritten at every step.

The event log covers only one rank. Heartbeats cover every rank on its own node, need no shared file
system, and cost a few microseconds per step.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from seatrial.storage.state_files import DamagedError, open_descriptor, read_state

DIRECTORY = "SEATRIAL_HEARTBEATS"
"""The variable with the directory for heartbeats; if unset, no heartbeats are written."""
_WIDTH = 160
"""Line length: constant, so that a shorter line completely overwrites a longer one."""


class RankPhase(StrEnum):
    """The phase of a process; each has its own timeout."""

    STARTING = "starting"
    """Everything before training: imports, process groups, loading the checkpoint, data."""
    FIRST = "first"
    """The first step after a start, with compilation and warm-up."""
    STEPS = "steps"
    """All other steps."""
    SAVING = "saving"
    """A checkpoint is being written, staged or finalised."""
    EVALUATING = "evaluating"
    ENDING = "ending"
    """Training is over; the process finishes saves and exits."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The last heartbeat of a process."""

    process: int
    """Process ID."""
    rank: int
    restart: int
    """How often torchrun had restarted the process at this time."""
    phase: RankPhase
    step: int
    """The newest completed step."""
    resumed: int
    """The step that training started from; -1 before it started."""
    since: float
    """Time of the heartbeat on the monotonic clock, which all processes on a host share."""
    seconds: float
    """Duration of the newest step, without saves and evaluations; 0 before the first step."""


class BeatWriter:
    """Writes this process's heartbeat. A write error must not stop the run."""

    def __init__(self, path: Path | None, rank: int, restart: int = 0) -> None:
        """Start in the phase before training. Without a path, no heartbeat is written."""
        self._file = -1
        self._beat = Beat(
            os.getpid(), rank, restart, RankPhase.STARTING, 0, -1, time.monotonic(), 0.0
        )
        self._paused = 0.0
        self._stepped = self._beat.since
        if path is not None:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                # Overwrite in place at every step: replacing the file would cost more.
                self._file = open_descriptor(path, os.O_WRONLY | os.O_CREAT)
        self._write()

    def begin(self, step: int) -> None:
        """Record that training starts after this step."""
        self._update(RankPhase.FIRST, step=step, resumed=step)
        self._stepped, self._paused = self._beat.since, 0.0

    def step(self, step: int) -> None:
        """Record a completed step."""
        now = time.monotonic()
        seconds = 0.0
        if self._beat.phase is not RankPhase.FIRST:
            seconds = max(0.0, now - self._stepped - self._paused)
        self._stepped, self._paused = now, 0.0
        self._update(RankPhase.STEPS, step=step, seconds=seconds)

    def still(self) -> None:
        """Record progress within the current phase."""
        self._update(self._beat.phase)

    def end(self) -> None:
        """Record the end of training."""
        self._update(RankPhase.ENDING)

    @contextmanager
    def pause(self, phase: RankPhase) -> Iterator[None]:
        """Record a phase other than steps. A nested pause counts as part of the outer one."""
        before = self._beat.phase
        if before in (RankPhase.SAVING, RankPhase.EVALUATING):
            yield
            return
        self._update(phase)
        began = self._beat.since
        try:
            yield
        finally:
            # If training ended during the pause, as with the last save, keep the new phase.
            if self._beat.phase is phase:
                self._update(before)
            self._paused += time.monotonic() - began

    def _update(self, phase: RankPhase, **values: float) -> None:
        self._beat = replace(self._beat, phase=phase, since=time.monotonic(), **values)  # type: ignore[arg-type]
        self._write()

    def _write(self) -> None:
        if self._file < 0:
            return
        beat = self._beat
        words = (
            *(beat.process, beat.rank, beat.restart, beat.phase, beat.step, beat.resumed),
            *(f"{beat.since:.6f}", f"{beat.seconds:.6f}"),
        )
        line = " ".join(map(str, words)).ljust(_WIDTH - 1) + "\n"
        with suppress(OSError):
            os.pwrite(self._file, line.encode(), 0)


def beat_file(directory: Path, local_rank: int) -> Path:
    """Return the heartbeat file of a local rank."""
    return directory / f"rank-{local_rank}"


def decoded(line: str) -> Beat | None:
    """Parse a line. Return None if it is incomplete."""
    words = line.split()
    try:
        process, rank, restart, phase, step, resumed, since, seconds = words
        return Beat(
            *(int(process), int(rank), int(restart), RankPhase(phase), int(step), int(resumed)),
            *(float(since), float(seconds)),
        )
    except ValueError:
        return None


def read_beats(directory: Path) -> list[Beat]:
    """Return the last heartbeats of the processes on this node, by rank."""
    found = []
    for path in directory.glob("rank-*"):
        with suppress(OSError, DamagedError):
            beat = decoded(read_state(path, _WIDTH).decode(errors="replace"))
            if beat is not None:
                found.append(beat)
    return sorted(found, key=lambda beat: beat.rank)


def forget_beats(directory: Path) -> None:
    """Delete the heartbeats of earlier processes."""
    for path in directory.glob("rank-*"):
        with suppress(OSError):
            path.unlink()
