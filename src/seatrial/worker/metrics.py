# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics endpoint beside a training process, as a process of its own.

A thread would share the interpreter with the training, would be copied into every process that the
engine forks, with its socket, and would fall silent with a training that hangs, which is when it
is asked most. The process here reads the event log and serves; nothing waits for it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from seatrial.worker.settings import Settings

MODULE = "seatrial.worker.metrics_server"
END_SECONDS = 5.0
"""How long the process may take to end before it is killed."""


@contextmanager
def serving(chosen: Settings) -> Iterator[None]:
    """Serve metrics meanwhile, where the settings ask for it; that fails without harm."""
    server = _started(chosen)
    try:
        yield
    finally:
        if server is not None:
            _end(server)


def command(chosen: Settings) -> list[str] | None:
    """The words of the process; none where this rank does not serve."""
    if chosen.metrics is None or not chosen.writes_events:
        return None
    return [
        *(sys.executable, "-m", MODULE, f"--events={chosen.events}", f"--run={chosen.run}"),
        f"--address={chosen.metrics.address}",
        f"--port={chosen.metrics.port}",
        f"--parent={os.getpid()}",
    ]


def _started(chosen: Settings) -> subprocess.Popen[bytes] | None:
    words = command(chosen)
    if words is None:
        return None
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL)  # noqa: S603  (our own words)
    except OSError as error:
        sys.stderr.write(f"seatrial: no metrics are served: {error}\n")
        return None


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
