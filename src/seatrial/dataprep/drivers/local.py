# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The driver for one machine: a few warm worker processes, each with a pipe of its own.

Why neither `multiprocessing.Pool` nor `concurrent.futures`: when a worker is killed, the first
waits for its result for ever (so does Megatron's preprocess_data.py, which stands on it) and the
second declares all of its workers lost. With a pipe for each worker, one that is killed is seen at
once by the end of its pipe, costs its own task only, and is replaced. Workers are started as
programs and not forked, so threads of the caller do no harm, and the caller's script needs no
`if __name__ == "__main__"`; what passes through the pipes is JSON.
"""

import json
import os
import selectors
import subprocess
import sys
import tempfile
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
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import Task, TaskList

LARGEST_MEMORY = 640 << 20
"""A worker that holds more bytes than this after a task is replaced by a new one.

The cache of gigatoken 0.10 is never emptied (its issue 36).
"""
_WORKER = (sys.executable, "-m", "seatrial.dataprep.drivers.worker")
_SAID = 200
"""Characters of a dead worker's last line that are passed on."""
_PATIENCE = 5.0
"""Seconds that a worker has for ending when asked to."""


class _Worker:
    """One process and what it does."""

    def __init__(self, command: Sequence[str]) -> None:
        self.task: Task | None = None
        self.heard = b""
        # Without a name, so that it is gone with the last process that has it open.
        self.words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.words,
            env=THREADS | os.environ,
            # Ctrl-C is for the parent alone, which then ends its workers.
            process_group=0,
        )
        self.input = cast(IO[bytes], self.process.stdin)
        self.output = cast(IO[bytes], self.process.stdout)

    def tell(self, line: str) -> None:
        """Send a line; that the worker has died shows at its output."""
        with suppress(BrokenPipeError):
            self.input.write(line.encode() + b"\n")
            self.input.flush()

    def listen(self) -> list[dict[str, Any]] | None:
        """The messages that have come; nothing at the end of the worker."""
        data = os.read(self.output.fileno(), 1 << 20)
        if not data:
            return None
        *lines, self.heard = (self.heard + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """End the process, if it has not ended, and wait for it."""
        with suppress(BrokenPipeError):
            self.input.close()
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()
        self.words.close()

    def epitaph(self) -> str:
        """How the process ended, in words."""
        code = self.process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        self.words.seek(0)
        lines = self.words.read().decode(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")[:_SAID]
        return f"its worker {how}" + (f", saying {said!r}" if said else "")


@dataclass
class LocalDriver:
    """Runs tasks in processes on this machine."""

    workers: int
    """Processes at a time."""
    command: Sequence[str] = _WORKER
    """The program that a worker is."""
    largest_memory: int = LARGEST_MEMORY
    """Bytes above which a worker is replaced after a task."""
    replaced: int = field(default=0, init=False)
    """Workers that were replaced for their memory."""

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
        """Hand out tasks until all are done."""
        first = [self.hire() for _ in range(min(self.driver.workers, len(self.waiting)))]
        for worker in first:
            worker.tell(job.draft.to_json())
        self.job = job.chosen().to_json()
        for worker in first:
            self.employ(worker)
        while self.busy:
            for key, _ in self.selector.select():
                worker = cast(_Worker, key.data)
                messages = worker.listen()
                if messages is None:
                    yield from self.bury(worker)
                for message in messages or ():
                    yield from self.hear(worker, message)

    def hire(self) -> _Worker:
        worker = _Worker(self.driver.command)
        self.busy.add(worker)
        self.selector.register(worker.output, selectors.EVENT_READ, worker)
        return worker

    def employ(self, worker: _Worker) -> None:
        """Tell a new worker what all is about, and its first task."""
        worker.tell(self.job)
        self.hand_out(worker)

    def hand_out(self, worker: _Worker) -> None:
        """Give a worker the next task; without one, it may go."""
        if not self.waiting:
            self.dismiss(worker)
            return
        worker.task = self.waiting.popleft()
        number = worker.task.number
        self.tries[number] = self.tries.get(number, 0) + 1
        worker.tell(line_of(self.tasks, worker.task))

    def dismiss(self, worker: _Worker) -> None:
        """Let a worker go."""
        self.selector.unregister(worker.output)
        self.busy.discard(worker)
        worker.end()

    def hear(self, worker: _Worker, message: dict[str, Any]) -> Iterator[Event]:
        """Act on what a worker says."""
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
                self.dismiss(worker)
                self.employ(self.hire())
            else:
                self.hand_out(worker)
        else:
            worker.task = None
            yield self.retry(task, message["error"])
            self.hand_out(worker)

    def bury(self, worker: _Worker) -> Iterator[Event]:
        """Replace a worker that has died, and try its task again."""
        task, epitaph = worker.task, worker.epitaph()
        self.dismiss(worker)
        if task is not None:
            yield self.retry(task, {"kind": "system", "text": epitaph})
        if self.waiting:
            self.employ(self.hire())

    def retry(self, task: Task, error: dict[str, Any]) -> Again:
        """Put a task back in front, or end all with its failure."""
        end = failure(task, error, self.tries[task.number])
        if end is not None:
            raise end
        self.waiting.appendleft(task)
        return Again(task.number, error["text"])

    def end(self) -> None:
        """End every worker that is left: the run is over, has failed or was given up."""
        for worker in self.busy:
            worker.process.kill()
        for worker in list(self.busy):
            self.dismiss(worker)
        self.selector.close()
