# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.dataprep.drivers.worker`: a process of the local driver.

It reads a job from standard input, a second time if the backend was not chosen yet, and then task
lines. It writes messages to standard output, one JSON object per line. It exits when its input
ends, so no worker outlives a killed parent.
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
"""Seconds between two progress messages."""


def main() -> None:
    """Do tasks until the input ends."""
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
        _send(output, answer | {"memory": memory_in_use()})


def _warm_up() -> None:
    """Import the modules of the fastest backend (0.3 s) while the parent chooses."""
    for name in ("gigatoken", "awkward"):
        with suppress(ImportError):
            import_module(name)


def _listen(lines: "queue.SimpleQueue[bytes]") -> None:
    """Queue the parent's lines; exit when they end, even in the middle of a task."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _send(output: int, message: dict[str, Any]) -> None:
    """Send a message to the parent; exit if the parent is gone."""
    data = memoryview(json.dumps(message).encode() + b"\n")
    try:
        while data:
            data = data[os.write(output, data) :]
    except BrokenPipeError:
        os._exit(0)


class _Reporter:
    """Reports the progress of a task periodically."""

    def __init__(self, output: int) -> None:
        self.output, self.last = output, 0.0

    def read(self, input_bytes: int) -> None:
        """Report the bytes read, unless the last report is recent."""
        now = time.monotonic()
        if now - self.last >= _EVERY:
            self.last = now
            _send(self.output, {"read": input_bytes})


if __name__ == "__main__":
    main()
