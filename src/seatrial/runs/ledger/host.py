# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs on this host: a directory for each, and in it files that are written once each.

An attempt is a file that only one call can create, its end another. Whoever supervises an attempt
holds a lock for as long as it lives, so that nobody has to trust a process number.
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
"""The directory beside a spec that holds what Seatrial keeps."""
ATTEMPTS = "attempts"
LAUNCH_LOCK = "launch.lock"
"""Held by the one call that may begin an attempt, or delete all."""
LOCK_SECONDS = 120.0
"""How long a call waits for another that launches the same run."""
START_SECONDS = 30.0
"""How long the supervisor of an attempt may take to start."""
SUPERVISOR = "seatrial.runs.launch.host_supervisor"
"""The module that supervises an attempt: its command line ends with this and the attempt's task."""
KIND = "torchrun"
"""What stands where a job's kind does."""
_PAUSE_SECONDS = 0.02
_ATTEMPT_FILE = re.compile(r"(\d{5})\.(?:record|task)")
"""The two files that every attempt has: one of them is enough to know of it."""
LAST_ATTEMPT = 99_999
"""A higher number would not fit into the names of files."""
_LONGEST_NUMBER = 9
"""Digits of a process number: Linux has at most 2**22 of them."""
_RECORD_FIX = (
    "Stop the run if it is running (seatrial stop). Then restore the file from a backup, or delete "
    "the files of this attempt."
)
_END_FIX = "Delete the file: how the attempt ended is unknown then. No command needs it."


@dataclass(frozen=True, slots=True)
class LocalRun:
    """One run on this host."""

    directory: Path
    """Where its attempts are written down."""

    @property
    def name(self) -> str:
        return self.directory.parent.name

    def file(self, number: int, kind: str) -> Path:
        """A file of an attempt: its record, its end, its log, its lock, what it runs."""
        return self.directory / f"{number:05}.{kind}"

    def numbers(self) -> list[int]:
        """The attempts that there are files of, damaged or not."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return []
        found = {int(match[1]) for match in map(_ATTEMPT_FILE.fullmatch, names) if match}
        return sorted(number for number in found if number > 0)

    def read(self) -> Ledger:
        """The attempts; a record or an end that is damaged becomes a finding."""
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
        """Begin an attempt; raises AttemptTakenError when its number is taken."""
        if record.number > LAST_ATTEMPT:
            raise UsageError(
                f"{self.file(LAST_ATTEMPT, 'record')}: no attempt can follow number "
                f"{LAST_ATTEMPT:,}. Delete the files of that number if nobody launched it, or "
                "rename the run."
            )
        try:
            create_state(self.file(record.number, "record"), record.to_text())
        except FileExistsError:
            raise AttemptTakenError(str(record.number)) from None
        except OSError as error:
            raise UsageError(f"{self.directory} cannot be written: {error.strerror}.") from None

    def end(self, number: int, end: End) -> None:
        """Note the end of an attempt, unless one is noted that can be read."""
        path, text = self.file(number, "end"), json.dumps(asdict(end))
        try:
            create_state(path, text)
        except FileExistsError:
            try:
                self._end(number)
            except DamagedError:
                # A directory in its place stays, and is told of.
                with suppress(OSError):
                    write_state(path, text)

    def is_starting(self, attempt: AttemptRecord) -> bool:
        """True if an attempt is written down and its supervisor is about to start."""
        if attempt.outcome is not None or not attempt.submitted:
            return False
        with suppress(OSError):
            # Whoever holds it has written its number there.
            if os.stat(self.file(attempt.number, "lock")).st_size > 0:
                return False
        began = datetime.fromisoformat(attempt.submitted)
        is_new = 0 <= (datetime.now(UTC) - began).total_seconds() < START_SECONDS
        return is_new and not self.supervisor(attempt.number)

    def supervisor(self, number: int) -> int:
        """The process that supervises an attempt; 0 when none does, -1 when it cannot be seen."""
        return self.supervisors().get(number, 0)

    def supervisors(self, *, thorough: bool = False) -> dict[int, int]:
        """The processes that supervise attempts of this run; -1 for one that cannot be seen here.

        A lock says whether there is one, and which. Either can be damaged, so that processes are
        looked for by their command lines too: if an attempt has no end, or if `thorough`.
        """
        held = {number: self._lock_holder(number) for number in self.numbers()}
        found = {
            number: process if self.is_supervisor(process, number) else -1
            for number, process in held.items()
            if process
        }
        if thorough or -1 in found.values() or any(map(self._may_run, held.keys() - found.keys())):
            for process, words in command_lines().items():
                number = self._supervised(process, words)
                if number:
                    found[number] = process
        return found

    def is_supervisor(self, process: int, number: int) -> bool:
        """True if a process supervises an attempt; without /proc there is only its number."""
        if process <= 1 or process == os.getpid():
            return False
        if not PROCESSES.is_dir():
            return self._lock_holder(number) == process
        words = command_line(process)
        return self._supervised(process, words) == number if words else is_exiting(process)

    def _supervised(self, process: int, words: tuple[str, ...]) -> int:
        """The attempt of this run that a process supervises; 0 when it does not."""
        *before, task = words or ("",)
        if before[-1:] != [SUPERVISOR]:
            return 0
        match = _ATTEMPT_FILE.fullmatch(os.path.basename(task))
        number = int(match[1]) if match else 0
        return number if number and self._is_here(process, number, os.path.dirname(task)) else 0

    def _is_here(self, process: int, number: int, started_in: str) -> bool:
        """True if the lock that a supervisor holds is the one of this directory.

        Either directory may have been moved since it started, so its command line decides only if
        its lock cannot be seen.
        """
        lock, directory = self.file(number, "lock"), os.path.realpath(self.directory)
        for path, held in open_files(process):
            if path.name != lock.name:
                continue
            if not held.st_nlink:
                # Somebody deleted the lock: its last directory remains.
                return str(path.parent) == directory
            with suppress(OSError):
                return os.path.samestat(held, lock.stat())
            return False
        return started_in == directory

    def _may_run(self, number: int) -> bool:
        """True unless the attempt has an end that can be read."""
        with suppress(DamagedError):
            return self._end(number) is None
        return True

    def _lock_holder(self, number: int) -> int:
        """The process that holds an attempt's lock; 0 when none does, -1 when it is unknown."""
        try:
            with open_regular(self.file(number, "lock")) as lock:
                try:
                    # Shared, so that two who look do not take each other for the supervisor.
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
        """Be the only one on this host that changes which attempts there are."""
        path = self.directory / LAUNCH_LOCK
        deadline = time.monotonic() + seconds
        while True:
            try:
                make_directory(self.directory)
                lock = open_append(path)
            except OSError as error:
                raise UsageError(
                    f"{error.filename or path} cannot be written: {error.strerror}."
                ) from None
            with lock:
                if not lock_within(lock.fileno(), deadline - time.monotonic()):
                    raise UsageError(
                        f"another launch of {self.name} is under way on this host, for more than "
                        f"{seconds:.0f} s. Wait until it has ended, or end it."
                    )
                # Whoever held it before may have deleted the run, and the file with it.
                if _is_at(lock.fileno(), path):
                    yield
                    return

    def _end(self, number: int) -> End | None:
        """The noted end of an attempt; None while there is none. Raises DamagedError."""
        try:
            return end_of_text(read_state(self.file(number, "end")))
        except FileNotFoundError:
            return None


def local_run(spec_directory: Path, name: str) -> LocalRun:
    """The run of a name whose spec is in a directory."""
    return LocalRun(spec_directory / WORK / name / ATTEMPTS)


def local_runs(spec_directory: Path) -> dict[str, LocalRun]:
    """The runs on this host of the specs in a directory; a launch that began nothing made none."""
    found = sorted((spec_directory / WORK).glob(f"*/{ATTEMPTS}"))
    return {path.parent.name: LocalRun(path) for path in found if LocalRun(path).numbers()}


def supervised_here(spec_directory: Path, name: str) -> LocalRun | None:
    """A run that a process of this host supervises, even if all files of the run are gone."""
    run = LocalRun(spec_directory / WORK / name / ATTEMPTS)
    return run if run.supervisors(thorough=True) else None


def lock_within(file: int, seconds: float) -> bool:
    """Lock a file that others may look at in this moment; whether that was possible in time."""
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
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
