# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.node.metrics_server`: the metrics of an event log for Prometheus.

Reads the log to its end, then serves, and goes on reading. It ends when the training process that
started it is gone, however that ended.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from types import FrameType

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seatrial.monitoring.event_log import decoded
from seatrial.monitoring.prometheus import EXPORTED, Form, RunNumbers
from seatrial.worker.node.tail import Tail

POLL_SECONDS = 0.5
"""Between looks at the log: a scrape is seldom more often than every 10 s."""
BIND_SECONDS = 30.0
"""How long the port may be taken: the process of a training that was killed needs a moment."""
NICE = 10
"""Training goes first."""


class Served(Collector):
    """The values of a run in the form that prometheus_client writes."""

    def __init__(self, run: str) -> None:
        """Begin before the first event of a run of that name."""
        self._run = run
        self._lock = Lock()
        self._numbers = RunNumbers()

    def take(self, lines: Iterable[bytes]) -> None:
        """Take in lines of the event log; what is no event is passed by."""
        for line in lines:
            event = decoded(line)
            if event is not None:
                with self._lock:
                    self._numbers.take(event)

    def forget(self) -> None:
        """Begin anew: another log is in the place of the one that was read."""
        with self._lock:
            self._numbers = RunNumbers()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            samples = self._numbers.samples()
        for metric in EXPORTED:
            names = ("run", *metric.label)
            family: GaugeMetricFamily | CounterMetricFamily
            if metric.form is Form.COUNTER:
                family = CounterMetricFamily(metric.name, metric.about, labels=names)
            else:
                family = GaugeMetricFamily(metric.name, metric.about, labels=names)
            for labels, value in sorted(samples[metric.name].items()):
                family.add_metric((self._run, *labels), value)
            if samples[metric.name]:
                yield family


def bind(address: str, port: int, served: Served, wanted: Callable[[], bool]) -> bool:
    """Begin to serve; a port that stays taken is told, and nothing more."""
    registry = CollectorRegistry()
    registry.register(served)
    end = time.monotonic() + BIND_SECONDS
    while wanted():
        try:
            start_http_server(port, address, registry)
        except (OSError, OverflowError) as error:
            if time.monotonic() >= end:
                sys.stderr.write(
                    f"seatrial: no metrics are served at {address}, port {port}: {error}. "
                    "Training goes on; choose another monitoring.prometheus.port.\n"
                )
                return False
            time.sleep(1.0)
        else:
            return True
    return False


def _end(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)


def main(arguments: list[str] | None = None) -> int:
    """Read, serve, and end with the parent."""
    parser = argparse.ArgumentParser(description="The metrics of an event log for Prometheus.")
    parser.add_argument("--events", type=Path, required=True, help="the event log")
    parser.add_argument("--run", required=True, help="the run's name")
    parser.add_argument("--address", required=True, help="address to listen at")
    parser.add_argument("--port", type=int, required=True, help="port to listen at")
    parser.add_argument("--parent", type=int, required=True, help="process to end with")
    told = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    # The terminal's interrupt is for the training, which ends this process when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    served, tail = Served(told.run), Tail(told.events)
    # All of the history first: a counter that rises to it would look like a burst.
    while lines := tail.lines():
        served.take(lines)

    def wanted() -> bool:
        return os.getppid() == told.parent

    if not bind(told.address, told.port, served, wanted):
        return 0
    while wanted():
        if tail.shrunk():
            served.forget()
        while lines := tail.lines():
            served.take(lines)
        time.sleep(POLL_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
