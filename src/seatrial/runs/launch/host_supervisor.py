# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.runs.launch.host_supervisor FILE`: run one attempt on this host.

Does what a cluster does for a pod: starts the supervisor of the processes, forwards SIGTERM, and
records how the attempt ended. It outlives the command that launched it. As in a pod,
`seatrial.worker.supervisor` handles restarts, hangs and leftover processes.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from seatrial.engine_process.package_path import python_path
from seatrial.monitoring.processes import MARK, end_marked, new_mark, open_files
from seatrial.runs.ledger.host import LocalRun, lock_within
from seatrial.runs.ledger.ledger import AttemptOutcome, End, utc
from seatrial.storage.state_files import decode, open_append, read_json

TETHER_MODULE = "seatrial.worker.supervisor.parent_death"
"""The module that kills a program when its parent dies."""
COMPLETE = ".complete"
"""The file in a directory with an engine that was installed completely."""
LOCK_SECONDS = 10.0
"""How long to retry the lock, which readers hold briefly. After that, another supervisor holds
it."""


@dataclass(frozen=True, slots=True)
class HostTask:
    """The command of an attempt."""

    number: int
    words: tuple[str, ...]
    environment: dict[str, str]
    """Variables in addition to the launcher's environment."""
    grace_seconds: float
    """How long it may take to save after SIGTERM."""
    install: tuple[str, ...] = ()
    """The command that installs the engine into `site` first; empty if it is not needed."""
    site: str = ""
    """The directory that `install` fills; a file in it marks it as complete."""
    in_container: bool = False
    """True if the processes end when their standard input does, because a container outlives the
    program that started it."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))


class HostSupervisor:
    """Runs a task until it exits."""

    def __init__(self, run: LocalRun, task: HostTask) -> None:
        self._run = run
        self._task = task
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self, _: int = 0, __: FrameType | None = None) -> None:
        """Ask the processes to save and exit."""
        self._stopping = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def work(self) -> AttemptOutcome:
        """Run the task, and record how it ended."""
        code, outcome = self._once(), AttemptOutcome.FAILED
        if self._stopping and code != 0:
            outcome = AttemptOutcome.STOPPED
        elif code == 0:
            outcome = AttemptOutcome.SUCCEEDED
        reason = f"torchrun exited with {code}" if outcome is AttemptOutcome.FAILED else ""
        self._moved().end(self._task.number, End(utc(datetime.now(UTC)), outcome, reason))
        return outcome

    def _moved(self) -> LocalRun:
        """Return the run at its current directory, which may have been moved since the start."""
        lock = self._run.file(self._task.number, "lock").name
        for path, held in open_files(os.getpid()):
            if path.name == lock and held.st_nlink:
                return LocalRun(path.parent)
        return self._run

    def _once(self) -> int:
        """Run the supervisor of the processes. Return its exit code, which is theirs."""
        mark = new_mark()
        environment = os.environ | {"PYTHONPATH": python_path()} | self._task.environment
        # If this process is killed, they must die too: no command could find them.
        tether = (sys.executable, "-m", TETHER_MODULE, str(os.getpid()))
        code = 0
        for words in filter(None, (self._missing_install(), self._task.words)):
            with open_append(self._run.file(self._task.number, "log")) as log:
                self._process = subprocess.Popen(  # noqa: S603  (our own argv, no shell)
                    (*tether, *words),
                    env=environment | {MARK: mark},
                    stdin=subprocess.PIPE if self._task.in_container else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                if self._stopping:
                    self._process.terminate()
                code = self._wait()
            if code:
                break
            if words == self._task.install:
                (Path(self._task.site) / COMPLETE).touch()
        end_marked(mark)
        return code

    def _missing_install(self) -> tuple[str, ...]:
        """Return the command that installs the engine, unless it has already succeeded."""
        if not self._task.install or (Path(self._task.site) / COMPLETE).exists():
            return ()
        return self._task.install

    def _wait(self) -> int:
        """Wait for the processes, and kill them after their grace period."""
        process, asked = self._process, 0.0
        if process is None:
            raise RuntimeError("no process was started")
        while True:
            try:
                return process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                if self._stopping:
                    asked = asked or time.monotonic()
                if asked and time.monotonic() - asked > self._task.grace_seconds:
                    process.kill()


def main(file: str) -> int:
    """Run the task in a file."""
    path = Path(file)
    task = decode(HostTask, read_json(path))
    run = LocalRun(path.parent)
    if os.fork():
        return 0
    # Detach from the terminal and the launcher, to outlive them.
    os.setsid()
    with open_append(run.file(task.number, "lock")) as lock:
        if not lock_within(lock.fileno(), LOCK_SECONDS):
            return 1
        # Keep the lock until the process exits: it identifies the supervisor.
        os.dup(lock.fileno())
        # Another launch may have given up on this attempt in the meantime.
        if run.file(task.number, "end").exists():
            return 1
        supervisor = HostSupervisor(run, task)
        signal.signal(signal.SIGTERM, supervisor.stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # A reader of this number may send SIGTERM immediately, so write it after the handlers are
        # set.
        lock.truncate(0)
        lock.write(str(os.getpid()).encode())
        return 0 if supervisor.work() is AttemptOutcome.SUCCEEDED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
