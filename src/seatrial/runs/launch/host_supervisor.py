# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.runs.launch.host_supervisor FILE`: one attempt on this host, to its end.

Does what a cluster does for a pod: starts the supervisor of its processes, passes on the wish to
end, and writes down how the attempt ended. It outlives the command that launched it. Restarts,
hangs and leftovers are the business of `seatrial.worker.supervisor`, here as in a pod.
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
"""What makes a program end with whoever started it."""
LOCK_SECONDS = 10.0
"""How long others may look at the lock before it is taken for held by another supervisor."""


@dataclass(frozen=True, slots=True)
class HostTask:
    """What is to be run."""

    number: int
    words: tuple[str, ...]
    environment: dict[str, str]
    """Variables that it needs besides those of the one who launched it."""
    grace_seconds: float
    """How long it may take to save when it is asked to end."""

    def to_text(self) -> str:
        """The task as JSON."""
        return json.dumps(asdict(self))


class HostSupervisor:
    """Runs a task to its end."""

    def __init__(self, run: LocalRun, task: HostTask) -> None:
        """Keep what is to be run."""
        self._run = run
        self._task = task
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self, _: int = 0, __: FrameType | None = None) -> None:
        """Ask the processes to save and end."""
        self._stopping = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def work(self) -> AttemptOutcome:
        """Run it, and write down how it ended."""
        code, outcome = self._once(), AttemptOutcome.FAILED
        if self._stopping and code != 0:
            outcome = AttemptOutcome.STOPPED
        elif code == 0:
            outcome = AttemptOutcome.SUCCEEDED
        reason = f"torchrun ended with {code}" if outcome is AttemptOutcome.FAILED else ""
        self._moved().end(self._task.number, End(utc(datetime.now(UTC)), outcome, reason))
        return outcome

    def _moved(self) -> LocalRun:
        """The run where its directory is now: a person may have moved it since the start."""
        lock = self._run.file(self._task.number, "lock").name
        for path, held in open_files(os.getpid()):
            if path.name == lock and held.st_nlink:
                return LocalRun(path.parent)
        return self._run

    def _once(self) -> int:
        """Run the supervisor of the processes; its exit code is theirs."""
        mark = new_mark()
        environment = os.environ | {"PYTHONPATH": python_path()} | self._task.environment
        # Killed, this process takes them with it: nobody would know of them any more.
        tether = (sys.executable, "-m", TETHER_MODULE, str(os.getpid()))
        with open_append(self._run.file(self._task.number, "log")) as log:
            self._process = subprocess.Popen(  # noqa: S603  (our own words, no shell)
                (*tether, *self._task.words),
                env=environment | {MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if self._stopping:
                self._process.terminate()
            code = self._wait()
        end_marked(mark)
        return code

    def _wait(self) -> int:
        """Wait for the processes; those that do not end in their grace are killed."""
        process, asked = self._process, 0.0
        if process is None:
            raise RuntimeError("nothing was started")
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
    # No terminal, and no child of whoever launched: it lives on without them.
    os.setsid()
    with open_append(run.file(task.number, "lock")) as lock:
        if not lock_within(lock.fileno(), LOCK_SECONDS):
            return 1
        # Held until the process has ended: it is known by this lock.
        os.dup(lock.fileno())
        # A launch that came between has given this attempt up already.
        if run.file(task.number, "end").exists():
            return 1
        supervisor = HostSupervisor(run, task)
        signal.signal(signal.SIGTERM, supervisor.stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # Whoever reads this may ask it to end at once.
        lock.truncate(0)
        lock.write(str(os.getpid()).encode())
        return 0 if supervisor.work() is AttemptOutcome.SUCCEEDED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
