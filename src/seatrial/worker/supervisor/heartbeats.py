# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a process: one short line in a file of its own, written over at every step.

The event log would tell the same of one rank of a run; this tells of every rank on its own node,
without a shared file system between, and costs some microseconds a step.
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
"""The variable that tells processes where their heartbeats go; none are kept without it."""
_WIDTH = 160
"""Bytes of a line: always the same, so that a shorter one leaves nothing of the one before."""


class RankPhase(StrEnum):
    """What a process is at; each has a patience of its own."""

    STARTING = "starting"
    """Imports, process groups, the checkpoint, data: all before training."""
    FIRST = "first"
    """The first step after a start, which compiles and warms up."""
    STEPS = "steps"
    """The steps after that."""
    SAVING = "saving"
    """A checkpoint is written, handed over or finished."""
    EVALUATING = "evaluating"
    """An evaluation."""
    ENDING = "ending"
    """Training is over; what is left is to finish saves and to leave."""


@dataclass(frozen=True, slots=True)
class Beat:
    """What a process last told."""

    process: int
    """Its number on the node."""
    rank: int
    restart: int
    """How often torchrun had started it again by then."""
    phase: RankPhase
    step: int
    """The newest step that is done."""
    resumed: int
    """The step that training began from; -1 before it did."""
    since: float
    """When it told, by the clock that all processes of a host share and nobody sets."""
    seconds: float
    """How long the newest step took, without saves and evaluations; 0 before there is one."""


class BeatWriter:
    """Writes the heartbeat of this process; a file that cannot be written must not end a run."""

    def __init__(self, path: Path | None, rank: int, restart: int = 0) -> None:
        """Begin before training; without a path nothing is written."""
        self._file = -1
        self._beat = Beat(
            os.getpid(), rank, restart, RankPhase.STARTING, 0, -1, time.monotonic(), 0.0
        )
        self._paused = 0.0
        self._stepped = self._beat.since
        if path is not None:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                # Written over in place at every step: a file that is replaced would cost more.
                self._file = open_descriptor(path, os.O_WRONLY | os.O_CREAT)
        self._write()

    def begin(self, step: int) -> None:
        """Training begins after a step."""
        self._tell(RankPhase.FIRST, step=step, resumed=step)
        self._stepped, self._paused = self._beat.since, 0.0

    def step(self, step: int) -> None:
        """A step is done."""
        now = time.monotonic()
        seconds = 0.0
        if self._beat.phase is not RankPhase.FIRST:
            seconds = max(0.0, now - self._stepped - self._paused)
        self._stepped, self._paused = now, 0.0
        self._tell(RankPhase.STEPS, step=step, seconds=seconds)

    def still(self) -> None:
        """What it is at goes on, and has got further."""
        self._tell(self._beat.phase)

    def end(self) -> None:
        """Training is over."""
        self._tell(RankPhase.ENDING)

    @contextmanager
    def pause(self, phase: RankPhase) -> Iterator[None]:
        """Something that is no step goes on; what is inside of another pause is part of it."""
        before = self._beat.phase
        if before in (RankPhase.SAVING, RankPhase.EVALUATING):
            yield
            return
        self._tell(phase)
        began = self._beat.since
        try:
            yield
        finally:
            # Ended inside, as with the last save, it does not go back.
            if self._beat.phase is phase:
                self._tell(before)
            self._paused += time.monotonic() - began

    def _tell(self, phase: RankPhase, **values: float) -> None:
        self._beat = replace(self._beat, phase=phase, since=time.monotonic(), **values)  # type: ignore[arg-type]
        self._write()

    def _write(self) -> None:
        if self._file < 0:
            return
        told = self._beat
        words = (
            *(told.process, told.rank, told.restart, told.phase, told.step, told.resumed),
            *(f"{told.since:.6f}", f"{told.seconds:.6f}"),
        )
        line = " ".join(map(str, words)).ljust(_WIDTH - 1) + "\n"
        with suppress(OSError):
            os.pwrite(self._file, line.encode(), 0)


def beat_file(directory: Path, local_rank: int) -> Path:
    """Where the process of a local rank writes."""
    return directory / f"rank-{local_rank}"


def decoded(line: str) -> Beat | None:
    """The beat of a line; none where it is half of one."""
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
    """What the processes of this node last told, by rank."""
    found = []
    for path in directory.glob("rank-*"):
        with suppress(OSError, DamagedError):
            beat = decoded(read_state(path, _WIDTH).decode(errors="replace"))
            if beat is not None:
                found.append(beat)
    return sorted(found, key=lambda beat: beat.rank)


def forget_beats(directory: Path) -> None:
    """Remove what processes told that are no more."""
    for path in directory.glob("rank-*"):
        with suppress(OSError):
            path.unlink()
