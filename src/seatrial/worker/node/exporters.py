# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What shows a training's numbers to others, beside it, in processes of their own.

A thread would share the interpreter with the training, would be copied into every process that the
engine forks, with its socket, and would fall silent with a training that hangs, which is when it
is asked most. The processes here read the event log, and nothing waits for them.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from seatrial.worker.settings import Settings

SERVER = "seatrial.worker.node.metrics_server"
"""The metrics endpoint."""
SENDER = "seatrial.worker.node.mlflow_sender"
"""What sends events to MLflow."""
END_SECONDS = 15.0
"""How long a process may take to end, and to send the last events, before it is killed."""


@contextmanager
def serving(chosen: Settings) -> Iterator[None]:
    """Show the numbers meanwhile, where the settings ask for it; that fails without harm."""
    started = [_started(words) for words in commands(chosen)]
    processes = [process for process in started if process is not None]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            _await_end(process)


def commands(chosen: Settings) -> list[list[str]]:
    """The words of each process; none on a rank that does not keep the log."""
    if not chosen.writes_events:
        return []
    told = [f"--events={chosen.events}", f"--run={chosen.run}", f"--parent={os.getpid()}"]
    found = []
    if chosen.metrics is not None:
        where = [f"--address={chosen.metrics.address}", f"--port={chosen.metrics.port}"]
        found.append([sys.executable, "-m", SERVER, *told, *where])
    if chosen.mlflow is not None and _has_mlflow():
        # The address is in the environment, where MLflow looks for it, with its credentials.
        experiment = f"--experiment={chosen.mlflow.experiment}"
        found.append([sys.executable, "-m", SENDER, *told, experiment])
    return found


def _has_mlflow() -> bool:
    there = find_spec("mlflow") is not None
    if not there:
        sys.stderr.write(
            "seatrial: nothing is sent to MLflow, which this image lacks. Training goes on; use an "
            "image with seatrial[mlflow], or send the event log later (seatrial.export_mlflow).\n"
        )
    return there


def _started(words: list[str]) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL)  # noqa: S603  (our own words)
    except OSError as error:
        sys.stderr.write(f"seatrial: {words[2]} does not start, training goes on: {error}\n")
        return None


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
