# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.node.mlflow_sender`: the events of a training to MLflow, as they come.

It ends with the training process that started it, after a last look. What could not be sent by
then is sent at the next start: MLflow itself says how far the log is there.
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
"""Between looks at the log, so that a server gets a few steps at a time."""
NICE = 10
"""Training goes first."""


class Sender:
    """Sends what a log has got since the last look; a server that is away is asked again."""

    def __init__(self, run: str, tracking_uri: str, experiment: str, events: Path) -> None:
        """Begin with nothing sent."""
        self._told = (run, tracking_uri, experiment)
        self._events = events
        self._tail = Tail(events)
        self._run: MlflowRun | None = None
        self._complained = False

    def look(self) -> bool:
        """Send what is new; whether that went well."""
        try:
            if self._run is None or self._tail.shrunk():
                # From the beginning: MLflow says itself what of it is there.
                self._tail = Tail(self._events)
                self._run = MlflowRun(*self._told)
            while lines := self._tail.lines():
                events = [event for line in lines if (event := decoded(line)) is not None]
                self._run.send(events)
        except (MlflowException, OSError) as error:
            self._run = None
            if not self._complained:
                # It names the address, and logs are read by more people than secrets are.
                said = redact(str(error))
                sys.stderr.write(f"seatrial: MLflow does not take events now: {said}\n")
            self._complained = True
            return False
        return True


def main(arguments: list[str] | None = None) -> int:
    """Send until the training has ended."""
    parser = argparse.ArgumentParser(description="The events of a training to MLflow.")
    parser.add_argument("--events", type=Path, required=True, help="the event log")
    parser.add_argument("--run", required=True, help="the run's name")
    parser.add_argument("--experiment", required=True, help="the experiment in MLflow")
    parser.add_argument("--parent", type=int, required=True, help="process to end with")
    told = parser.parse_args(arguments)
    ending = []

    def end(signum: int, frame: FrameType | None) -> None:
        ending.append(signum)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    sender = Sender(told.run, os.environ[MLFLOW_URI], told.experiment, told.events)
    while not ending and os.getppid() == told.parent:
        sender.look()
        deadline = time.monotonic() + POLL_SECONDS
        while not ending and os.getppid() == told.parent and time.monotonic() < deadline:
            time.sleep(0.2)
    sender.look()
    return 0


if __name__ == "__main__":
    sys.exit(main())
