# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Export the metrics of a training run, in separate processes.

A thread would share the interpreter with training, and every process that the engine forks would
inherit its socket. A thread would also block if training hangs, which is when metrics matter most.
These processes read the event log, and training never waits for them.
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
"""The process that sends events to MLflow."""
END_SECONDS = 15.0
"""How long a process may take to send the last events and exit before it is killed."""


@contextmanager
def serving(chosen: Settings) -> Iterator[None]:
    """Run the exporters that the settings enable. A failure does not affect training."""
    started = [_started(argv) for argv in commands(chosen)]
    processes = [process for process in started if process is not None]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            _await_end(process)


def commands(chosen: Settings) -> list[list[str]]:
    """Return the argv of each process; empty on a rank that does not write the event log."""
    if not chosen.writes_events:
        return []
    common = [f"--events={chosen.events}", f"--run={chosen.run}", f"--parent={os.getpid()}"]
    found = []
    if chosen.metrics is not None:
        where = [f"--address={chosen.metrics.address}", f"--port={chosen.metrics.port}"]
        found.append([sys.executable, "-m", SERVER, *common, *where])
    if chosen.mlflow is not None and _has_mlflow():
        # The address is in MLflow's own environment variable, with its credentials.
        experiment = f"--experiment={chosen.mlflow.experiment}"
        found.append([sys.executable, "-m", SENDER, *common, experiment])
    return found


def _has_mlflow() -> bool:
    there = find_spec("mlflow") is not None
    if not there:
        sys.stderr.write(
            "seatrial: cannot send events to MLflow: this image does not include mlflow. Training "
            "continues. Use an image with seatrial[mlflow], or export the event log later "
            "(seatrial.export_mlflow).\n"
        )
    return there


def _started(argv: list[str]) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL)  # noqa: S603  (our own argv)
    except OSError as error:
        sys.stderr.write(f"seatrial: cannot start {argv[2]}: {error}; training continues\n")
        return None


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
