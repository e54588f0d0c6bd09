# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.node.mlflow_sender`: stream the events of a training run to MLflow.

When the training process that started it exits, the sender sends the last events and exits. The
next start sends the rest: MLflow stores how much of the log it has received.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from mlflow.exceptions import MlflowException

from seatrial.monitoring.event_log import decoded
from seatrial.monitoring.mlflow_export import MlflowRun
from seatrial.secrets.redaction import redact
from seatrial.worker.node.tail import Tail
from seatrial.worker.settings import MLFLOW_URI

POLL_SECONDS = 10.0
"""Interval between reads of the log, so that each request contains a few steps."""
NICE = 10
"""Training has priority."""


class Sender:
    """Sends new events from a log; retries if the server is unavailable."""

    def __init__(self, run: str, tracking_uri: str, experiment: str, events: Path) -> None:
        self._target = (run, tracking_uri, experiment)
        self._events = events
        self._tail = Tail(events)
        self._run: MlflowRun | None = None
        self._complained = False

    def look(self) -> bool:
        """Send new events. Return True on success."""
        try:
            if self._run is None or self._tail.shrunk():
                # Start at the beginning of the log: MLflow stores how much it has received.
                self._tail = Tail(self._events)
                self._run = MlflowRun(*self._target)
            while lines := self._tail.lines():
                events = [event for line in lines if (event := decoded(line)) is not None]
                self._run.send(events)
        except (MlflowException, OSError) as error:
            self._run = None
            if not self._complained:
                # The message contains the address, and more people can read logs than secrets.
                message = redact(str(error))
                sys.stderr.write(f"seatrial: MLflow does not accept events, retrying: {message}\n")
            self._complained = True
            return False
        return True


def main(arguments: list[str] | None = None) -> int:
    """Send events until training exits."""
    parser = argparse.ArgumentParser(description="Stream the events of a training run to MLflow.")
    parser.add_argument("--events", type=Path, required=True, help="the event log")
    parser.add_argument("--run", required=True, help="the run's name")
    parser.add_argument("--experiment", required=True, help="the experiment in MLflow")
    parser.add_argument("--parent", type=int, required=True, help="process to exit with")
    options = parser.parse_args(arguments)
    ending = []

    def end(signum: int, frame: FrameType | None) -> None:
        ending.append(signum)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    sender = Sender(options.run, os.environ[MLFLOW_URI], options.experiment, options.events)
    while not ending and os.getppid() == options.parent:
        sender.look()
        deadline = time.monotonic() + POLL_SECONDS
        while not ending and os.getppid() == options.parent and time.monotonic() < deadline:
            time.sleep(0.2)
    sender.look()
    return 0


if __name__ == "__main__":
    sys.exit(main())
