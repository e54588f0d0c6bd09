# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.dataprep.drivers.worker`: a process of the local driver.

Reads a job, which comes again if its backend was not chosen yet, and then lines of tasks from
standard input, and writes messages to standard output, one JSON object a line. It ends when its
input ends: so no worker outlives a parent that was killed.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from seatrial.dataprep.drivers.driver import Job
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.kernel.memory import memory_in_use

_EVERY = 0.2
"""Seconds between two messages of progress."""


def main() -> None:
    """Do tasks until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a library prints must not get between the messages.
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    _warm_up()
    bench = Bench(Job.from_json(lines.get()))
    if not bench.job.backend:
        bench.get_ready(lambda: not lines.empty())
        bench.take(Job.from_json(lines.get()))
    while True:
        line = lines.get()
        answer = bench.attempt(line.decode(), _Reporter(output).read)
        _tell(output, answer | {"memory": memory_in_use()})


def _warm_up() -> None:
    """Load what the fastest backend needs, 0.3 s of imports, while the parent still chooses."""
    for name in ("gigatoken", "awkward"):
        with suppress(ImportError):
            import_module(name)


def _listen(lines: "queue.SimpleQueue[bytes]") -> None:
    """Pass on what the parent says; at its end, end at once, even in the middle of a task."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _tell(output: int, message: dict[str, Any]) -> None:
    """Send a message to the parent; without a parent, end."""
    data = memoryview(json.dumps(message).encode() + b"\n")
    try:
        while data:
            data = data[os.write(output, data) :]
    except BrokenPipeError:
        os._exit(0)


class _Reporter:
    """Says now and then how far a task has come."""

    def __init__(self, output: int) -> None:
        self.output, self.said = output, 0.0

    def read(self, input_bytes: int) -> None:
        """Say how much was read, unless it was said just now."""
        now = time.monotonic()
        if now - self.said >= _EVERY:
            self.said = now
            _tell(self.output, {"read": input_bytes})


if __name__ == "__main__":
    main()
