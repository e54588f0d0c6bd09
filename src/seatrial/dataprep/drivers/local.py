# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The driver for one machine: a few long-running worker processes, each with its own pipe.

Why not `multiprocessing.Pool` or `concurrent.futures`: if a worker is killed, the former waits for
its result forever (and so does Megatron's preprocess_data.py, which uses it), and the latter
declares all workers broken. With one pipe per worker, the driver detects a killed worker by the end
of its pipe, loses only its task, and replaces it. Workers are separate programs, not forks, so
threads of the caller are safe, and the caller's script needs no `if __name__ == "__main__"`. The
messages in the pipes are JSON.
"""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, cast

from seatrial.dataprep.drivers.driver import (
    THREADS,
    Again,
    Done,
    Event,
    Moved,
    PendingJob,
    failure,
    line_of,
)
from seatrial.dataprep.tasks.frozen import load_records
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import Task, TaskList
from seatrial.storage.access import store_at

LARGEST_MEMORY = 640 << 20
"""A worker that uses more bytes than this after a task is replaced.

gigatoken 0.10 never empties its cache (its issue 36).
"""
_WORKER = (sys.executable, "-m", "seatrial.dataprep.drivers.worker")
_SHOWN = 200
"""Most characters of a dead worker's last output line to report."""
_EXIT_SECONDS = 5.0
"""Seconds that a worker has to exit before it is killed."""


IDLE_SECONDS = 900.0
"""After this long without a new record from any pod, the waiting command runs the rest itself."""
LOOK_SECONDS = 10.0
"""How often to look for new records of pods."""


class _Worker:
    """One worker process and its current task."""

    def __init__(self, command: Sequence[str]) -> None:
        self.task: Task | None = None
        self.heard = b""
        # Unnamed: the file disappears when the last process closes it.
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=THREADS | os.environ,
            # Only the parent receives Ctrl-C; it then stops its workers.
            process_group=0,
        )
        self.input = cast(IO[bytes], self.process.stdin)
        self.output = cast(IO[bytes], self.process.stdout)

    def send(self, line: str) -> None:
        """Send a line; the end of the output shows that the worker has died."""
        with suppress(BrokenPipeError):
            self.input.write(line.encode() + b"\n")
            self.input.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the received messages; None if the worker has exited."""
        data = os.read(self.output.fileno(), 1 << 20)
        if not data:
            return None
        *lines, self.heard = (self.heard + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """Stop the process if it still runs, and wait for it."""
        with suppress(BrokenPipeError):
            self.input.close()
        try:
            self.process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()
        self.log.close()

    def exit_reason(self) -> str:
        """Describe how the process exited."""
        code = self.process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"its worker {how}" + (f"; last output: {last[:_SHOWN]!r}" if last else "")


@dataclass
class LocalDriver:
    """Runs tasks in processes on this machine."""

    workers: int
    """Number of parallel processes."""
    command: Sequence[str] = _WORKER
    """The command of a worker."""
    largest_memory: int = LARGEST_MEMORY
    """A worker that uses more bytes than this after a task is replaced."""
    replaced: int = field(default=0, init=False)
    """Workers that were replaced because of their memory use."""

    def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
        """Run tasks; see Driver."""
        run = _PoolRun(self, tasks, deque(wanted))
        try:
            yield from run.events(job)
        finally:
            run.end()


class _PoolRun:
    """The workers and the tasks of one call."""

    def __init__(self, driver: LocalDriver, tasks: TaskList, waiting: deque[Task]) -> None:
        self.driver, self.tasks, self.waiting = driver, tasks, waiting
        self.job = ""
        self.tries: dict[int, int] = {}
        self.busy: set[_Worker] = set()
        self.selector = selectors.DefaultSelector()

    def events(self, job: PendingJob) -> Iterator[Event]:
        """Distribute tasks until all are done."""
        first = [self.start_worker() for _ in range(min(self.driver.workers, len(self.waiting)))]
        for worker in first:
            worker.send(job.draft.to_json())
        self.job = job.chosen().to_json()
        for worker in first:
            self.set_up(worker)
        while self.busy:
            for key, _ in self.selector.select():
                worker = cast(_Worker, key.data)
                messages = worker.receive()
                if messages is None:
                    yield from self.replace_dead(worker)
                for message in messages or ():
                    yield from self.handle(worker, message)

    def start_worker(self) -> _Worker:
        worker = _Worker(self.driver.command)
        self.busy.add(worker)
        self.selector.register(worker.output, selectors.EVENT_READ, worker)
        return worker

    def set_up(self, worker: _Worker) -> None:
        """Send a new worker the job and its first task."""
        worker.send(self.job)
        self.hand_out(worker)

    def hand_out(self, worker: _Worker) -> None:
        """Send a worker the next task, or stop it if there is none."""
        if not self.waiting:
            self.stop_worker(worker)
            return
        worker.task = self.waiting.popleft()
        number = worker.task.number
        self.tries[number] = self.tries.get(number, 0) + 1
        worker.send(line_of(self.tasks, worker.task))

    def stop_worker(self, worker: _Worker) -> None:
        self.selector.unregister(worker.output)
        self.busy.discard(worker)
        worker.end()

    def handle(self, worker: _Worker, message: dict[str, Any]) -> Iterator[Event]:
        """Handle a message of a worker."""
        task = worker.task
        if task is None:
            return
        if "read" in message:
            yield Moved(task.number, message["read"])
        elif "record" in message:
            worker.task = None
            yield Done(PartRecord.from_json(message["record"].encode()))
            if message["memory"] > self.driver.largest_memory and self.waiting:
                self.driver.replaced += 1
                self.stop_worker(worker)
                self.set_up(self.start_worker())
            else:
                self.hand_out(worker)
        else:
            worker.task = None
            yield self.retry(task, message["error"])
            self.hand_out(worker)

    def replace_dead(self, worker: _Worker) -> Iterator[Event]:
        """Replace a worker that has died, and retry its task."""
        task, reason = worker.task, worker.exit_reason()
        self.stop_worker(worker)
        if task is not None:
            yield self.retry(task, {"kind": "system", "text": reason})
        if self.waiting:
            self.set_up(self.start_worker())

    def retry(self, task: Task, error: dict[str, Any]) -> Again:
        """Put a task back at the front of the queue, or raise its failure."""
        end = failure(task, error, self.tries[task.number])
        if end is not None:
            raise end
        self.waiting.appendleft(task)
        return Again(task.number, error["text"])

    def end(self) -> None:
        """Stop all workers: the run is done, has failed or was cancelled."""
        for worker in self.busy:
            worker.process.kill()
        for worker in list(self.busy):
            self.stop_worker(worker)
        self.selector.close()


class PodsDriver:
    """Waits for the records of tasks that pods run; runs the rest here if the pods stop."""

    def __init__(self, workers: int) -> None:
        self._here = LocalDriver(workers)

    def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
        """Yield each record when it is there."""
        store = store_at(job.draft.address)
        left = {task.number: task for task in wanted}
        moved = time.monotonic()
        while left and time.monotonic() - moved < IDLE_SECONDS:
            for number, record in load_records(store, tasks).items():
                if left.pop(number, None) is not None:
                    moved = time.monotonic()
                    yield Done(record)
            if left:
                time.sleep(LOOK_SECONDS)
        if left:
            yield from self._here.run(job, tasks, list(left.values()))
