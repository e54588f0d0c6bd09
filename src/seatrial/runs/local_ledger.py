# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs on this host: a directory for each, and in it files that are written once each.

An attempt is a file that only one call can create, its end another. Whoever supervises an attempt
holds a lock for as long as it lives, so that nobody has to trust a process number.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.runs.ledger import (
    AttemptRecord,
    AttemptTakenError,
    End,
    Ledger,
    Outcome,
    record_of,
)

WORK = ".seatrial"
"""The directory beside a spec that holds what Seatrial keeps."""
ATTEMPTS = "attempts"
LAUNCH_LOCK = "launch.lock"
"""Held by the one call that may begin an attempt, or delete all."""
LOCK_SECONDS = 120.0
"""How long a call waits for another that launches the same run."""
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class LocalRun:
    """One run on this host."""

    directory: Path
    """Where its attempts are written down."""

    @property
    def name(self) -> str:
        """The run's name."""
        return self.directory.parent.name

    def file(self, number: int, kind: str) -> Path:
        """A file of an attempt: its record, its end, its log, its lock, what it runs."""
        return self.directory / f"{number:05}.{kind}"

    def read(self) -> Ledger:
        """The attempts."""
        records = []
        for path in sorted(self.directory.glob("[0-9]*.record")):
            record = record_of(path.read_text(encoding="utf-8"))
            records.append(self._with_end(record))
        return Ledger(tuple(records))

    def add(self, record: AttemptRecord) -> None:
        """Begin an attempt; raises AttemptTakenError when its number is taken."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            _write_once(self.file(record.number, "record"), record.to_text())
        except FileExistsError:
            raise AttemptTakenError(str(record.number)) from None
        except OSError as error:
            raise UsageError(f"{self.directory} cannot be written: {error.strerror}.") from None

    def end(self, number: int, end: End) -> None:
        """Note the end of an attempt, unless one is noted."""
        words = {"when": end.when, "outcome": end.outcome, "reason": end.reason}
        with suppress(FileExistsError):
            _write_once(self.file(number, "end"), json.dumps(words))

    def supervisor(self, number: int) -> int:
        """The process that supervises an attempt; 0 when none does."""
        try:
            # Shared, so that two who look do not take each other for the supervisor.
            with self.file(number, "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = self.file(number, "lock").read_text()
            return int(text) if text.strip().isdigit() else -1
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
                self.directory.mkdir(parents=True, exist_ok=True)
                lock = path.open("a")
            except OSError as error:
                raise UsageError(f"{self.directory} cannot be written: {error.strerror}.") from None
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

    def _with_end(self, record: AttemptRecord) -> AttemptRecord:
        try:
            words = json.loads(self.file(record.number, "end").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return record
        return record.finished(End(words["when"], Outcome(words["outcome"]), words["reason"]))


def local_run(spec_directory: Path, name: str) -> LocalRun:
    """The run of a name whose spec is in a directory."""
    return LocalRun(spec_directory / WORK / name / ATTEMPTS)


def local_runs(spec_directory: Path) -> dict[str, LocalRun]:
    """The runs on this host of the specs in a directory; a launch that began nothing made none."""
    found = sorted((spec_directory / WORK).glob(f"*/{ATTEMPTS}"))
    return {path.parent.name: LocalRun(path) for path in found if any(path.glob("*.record"))}


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


def _write_once(path: Path, text: str) -> None:
    """Write a file whole, under a name that nobody has; raises FileExistsError otherwise."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        # A link is made or not made, in one step; a rename would replace.
        os.link(beside, path)
    finally:
        beside.unlink(missing_ok=True)
