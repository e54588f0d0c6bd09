# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs on this host: one directory per run, with files that are written once.

An attempt is a file that only one call can create, and its end is another file. The supervisor of
an attempt holds a lock while it lives, so no command has to trust a process id.
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.findings import Finding
from seatrial.monitoring.processes import (
    PROCESSES,
    command_line,
    command_lines,
    is_exiting,
    open_files,
    parent,
)
from seatrial.runs.ledger.ledger import (
    AttemptRecord,
    AttemptTakenError,
    End,
    Ledger,
    damaged,
    end_of_text,
    record_of,
    without_record,
)
from seatrial.storage.state_files import (
    DamagedError,
    create_state,
    make_directory,
    open_append,
    open_regular,
    read_state,
    write_state,
)

WORK = ".seatrial"
"""The directory next to a spec for Seatrial's state."""
ATTEMPTS = "attempts"
LAUNCH_LOCK = "launch.lock"
"""Held by the one call that may start an attempt or delete the run."""
LOCK_SECONDS = 120.0
"""How long a call waits for another launch of the same run."""
START_SECONDS = 30.0
"""How long the supervisor of an attempt may take to start."""
SUPERVISOR = "seatrial.runs.launch.host_supervisor"
"""The supervisor's module. Its argv ends with this and the attempt's task file."""
KIND = "torchrun"
"""Shown in place of a job's kind."""
_PAUSE_SECONDS = 0.02
_ATTEMPT_FILE = re.compile(r"(\d{5})\.(?:record|task)")
"""The two files of every attempt. One of them is enough to detect it."""
LAST_ATTEMPT = 99_999
"""A higher number does not fit into the file names."""
_LONGEST_NUMBER = 9
"""The maximum digits of a process id: Linux allows at most 2**22."""
_RECORD_FIX = (
    "Stop the run if it is running (seatrial stop). Then restore the file from a backup, or delete "
    "the files of this attempt."
)
_END_FIX = "Delete the file. The outcome of the attempt is then unknown; no command needs it."


@dataclass(frozen=True, slots=True)
class LocalRun:
    """One run on this host."""

    directory: Path
    """The directory of its attempts."""

    @property
    def name(self) -> str:
        return self.directory.parent.name

    def file(self, number: int, kind: str) -> Path:
        """Return a file of an attempt: its record, end, log, lock, spec or task."""
        return self.directory / f"{number:05}.{kind}"

    def numbers(self) -> list[int]:
        """Return the attempts that have files, damaged or not."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return []
        found = {int(match[1]) for match in map(_ATTEMPT_FILE.fullmatch, names) if match}
        return sorted(number for number in found if number > 0)

    def read(self) -> Ledger:
        """Read the attempts. A damaged record or end becomes a finding."""
        attempts: list[AttemptRecord] = []
        damage: list[Finding] = []
        unknown: set[int] = set()
        for number in self.numbers():
            path = self.file(number, "record")
            try:
                record = record_of(read_state(path), number)
            except FileNotFoundError:
                unknown.add(number)
                damage.append(damaged(str(path), DamagedError("it is missing"), _RECORD_FIX))
                record = without_record(number, KIND)
            except DamagedError as error:
                unknown.add(number)
                damage.append(damaged(str(path), error, _RECORD_FIX))
                record = without_record(number, KIND)
            try:
                end = self._end(number)
            except DamagedError as error:
                damage.append(damaged(str(self.file(number, "end")), error, _END_FIX))
                end = None
            attempts.append(record if end is None else record.finished(end))
        return Ledger(tuple(attempts), tuple(damage), frozenset(unknown))

    def add(self, record: AttemptRecord) -> None:
        """Start an attempt. Raises AttemptTakenError if its number is taken."""
        if record.number > LAST_ATTEMPT:
            raise UsageError(
                f"{self.file(LAST_ATTEMPT, 'record')}: no attempt can follow number "
                f"{LAST_ATTEMPT:,}. Delete the files of that attempt if nobody launched it, or "
                "rename the run."
            )
        try:
            create_state(self.file(record.number, "record"), record.to_text())
        except FileExistsError:
            raise AttemptTakenError(str(record.number)) from None
        except OSError as error:
            raise UsageError(f"cannot write {self.directory}: {error.strerror}.") from None

    def end(self, number: int, end: End) -> None:
        """Record the end of an attempt, unless a readable one exists."""
        path, text = self.file(number, "end"), json.dumps(asdict(end))
        try:
            create_state(path, text)
        except FileExistsError:
            try:
                self._end(number)
            except DamagedError:
                # A directory with this name is kept. Reading the ledger reports it.
                with suppress(OSError):
                    write_state(path, text)

    def is_starting(self, attempt: AttemptRecord) -> bool:
        """True if an attempt is recorded and its supervisor is about to start."""
        if attempt.outcome is not None or not attempt.submitted:
            return False
        with suppress(OSError):
            # The supervisor writes its process id to the lock.
            if os.stat(self.file(attempt.number, "lock")).st_size > 0:
                return False
        began = datetime.fromisoformat(attempt.submitted)
        is_new = 0 <= (datetime.now(UTC) - began).total_seconds() < START_SECONDS
        return is_new and not self.supervisor(attempt.number)

    def supervisor(self, number: int) -> int:
        """Return the process id of an attempt's supervisor. 0 if none, -1 if not visible here."""
        return self.supervisors().get(number, 0)

    def supervisors(self, *, thorough: bool = False) -> dict[int, int]:
        """Return the supervisors of this run by attempt. -1 for one that is not visible here.

        The lock shows whether there is a supervisor, and its process id. As both can be damaged,
        this also searches all command lines if an attempt has no end, or if `thorough` is set.
        """
        held = {number: self._lock_holder(number) for number in self.numbers()}
        found = {
            number: process if self.is_supervisor(process, number) else -1
            for number, process in held.items()
            if process
        }
        if thorough or -1 in found.values() or any(map(self._may_run, held.keys() - found.keys())):
            numbers = {
                process: number
                for process, words in command_lines().items()
                if (number := self._supervised(process, words))
            }
            # A child has the command line of its parent until it executes its own program.
            found |= {
                number: process
                for process, number in numbers.items()
                if numbers.get(parent(process)) != number
            }
        return found

    def is_supervisor(self, process: int, number: int) -> bool:
        """True if a process supervises an attempt. Without /proc, only its process id decides."""
        if process <= 1 or process == os.getpid():
            return False
        if not PROCESSES.is_dir():
            return self._lock_holder(number) == process
        words = command_line(process)
        return self._supervised(process, words) == number if words else is_exiting(process)

    def _supervised(self, process: int, words: tuple[str, ...]) -> int:
        """Return the attempt of this run that a process supervises, or 0."""
        *before, task = words or ("",)
        if before[-1:] != [SUPERVISOR]:
            return 0
        match = _ATTEMPT_FILE.fullmatch(os.path.basename(task))
        number = int(match[1]) if match else 0
        return number if number and self._is_here(process, number, os.path.dirname(task)) else 0

    def _is_here(self, process: int, number: int, started_in: str) -> bool:
        """True if a supervisor's lock is the one in this directory.

        Either directory may have been moved since the start, so the command line decides only if
        the lock is not visible.
        """
        lock, directory = self.file(number, "lock"), os.path.realpath(self.directory)
        for path, held in open_files(process):
            if path.name != lock.name:
                continue
            if not held.st_nlink:
                # The lock was deleted. Its path still shows the last directory.
                return str(path.parent) == directory
            with suppress(OSError):
                return os.path.samestat(held, lock.stat())
            return False
        return started_in == directory

    def _may_run(self, number: int) -> bool:
        """True unless the attempt has a readable end."""
        with suppress(DamagedError):
            return self._end(number) is None
        return True

    def _lock_holder(self, number: int) -> int:
        """Return the process that holds an attempt's lock. 0 if none does, -1 if unknown."""
        try:
            with open_regular(self.file(number, "lock")) as lock:
                try:
                    # A shared lock, so that two readers do not mistake each other for the
                    # supervisor.
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = lock.read(_LONGEST_NUMBER + 1).strip()
                    is_number = text.isdigit() and len(text) <= _LONGEST_NUMBER
                    return int(text) if is_number else -1
        except OSError:
            return 0
        return 0

    @contextmanager
    def held(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the exclusive right on this host to add or delete attempts."""
        path = self.directory / LAUNCH_LOCK
        deadline = time.monotonic() + seconds
        while True:
            try:
                make_directory(self.directory)
                lock = open_append(path)
            except OSError as error:
                raise UsageError(
                    f"cannot write {error.filename or path}: {error.strerror}."
                ) from None
            with lock:
                if not lock_within(lock.fileno(), deadline - time.monotonic()):
                    raise UsageError(
                        f"another launch of {self.name} on this host has been running for over "
                        f"{seconds:.0f} s. Wait for it, or stop it."
                    )
                # The previous holder may have deleted the run with this file.
                if _is_at(lock.fileno(), path):
                    yield
                    return

    def _end(self, number: int) -> End | None:
        """Return the recorded end of an attempt, or None. Raises DamagedError."""
        try:
            return end_of_text(read_state(self.file(number, "end")))
        except FileNotFoundError:
            return None


def local_run(spec_directory: Path, name: str) -> LocalRun:
    """Return the run of this name whose spec is in the directory."""
    return LocalRun(spec_directory / WORK / name / ATTEMPTS)


def local_runs(spec_directory: Path) -> dict[str, LocalRun]:
    """Return the runs on this host with specs in the directory and at least one attempt."""
    found = sorted((spec_directory / WORK).glob(f"*/{ATTEMPTS}"))
    return {path.parent.name: LocalRun(path) for path in found if LocalRun(path).numbers()}


def supervised_here(spec_directory: Path, name: str) -> LocalRun | None:
    """Return a run that a process on this host supervises, even if all its files are gone."""
    run = LocalRun(spec_directory / WORK / name / ATTEMPTS)
    return run if run.supervisors(thorough=True) else None


def lock_within(file: int, seconds: float) -> bool:
    """Lock a file, and retry while others read it. True if it was locked in time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_SECONDS)
        else:
            return True


def _is_at(file: int, path: Path) -> bool:
    """True if an open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
