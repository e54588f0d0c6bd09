# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.node.metrics_server`: serve the metrics of an event log to Prometheus.

Reads the log to its end, then starts to serve, and continues to read. The server exits when the
training process that started it exits for any reason.
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
"""Interval between reads of the log: scrapes are rarely more frequent than every 10 s."""
BIND_SECONDS = 30.0
"""How long to retry if the port is in use: a killed training process takes a moment to exit."""
NICE = 10
"""Training has priority."""


class Served(Collector):
    """The metrics of a run as a prometheus_client collector."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._lock = Lock()
        self._numbers = RunNumbers()

    def take(self, lines: Iterable[bytes]) -> None:
        """Process lines of the event log; skip lines that are not events."""
        for line in lines:
            event = decoded(line)
            if event is not None:
                with self._lock:
                    self._numbers.take(event)

    def forget(self) -> None:
        """Reset the metrics, because the log was replaced."""
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
    """Start serving. If the port stays in use, print a message and return False."""
    registry = CollectorRegistry()
    registry.register(served)
    end = time.monotonic() + BIND_SECONDS
    while wanted():
        try:
            start_http_server(port, address, registry)
        except (OSError, OverflowError) as error:
            if time.monotonic() >= end:
                sys.stderr.write(
                    f"seatrial: cannot serve metrics at {address}, port {port}: {error}. "
                    "Training continues; set monitoring.prometheus.port to a different port.\n"
                )
                return False
            time.sleep(1.0)
        else:
            return True
    return False


def _end(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)


def main(arguments: list[str] | None = None) -> int:
    """Read and serve until the parent exits."""
    parser = argparse.ArgumentParser(description="Serve the metrics of an event log to Prometheus.")
    parser.add_argument("--events", type=Path, required=True, help="the event log")
    parser.add_argument("--run", required=True, help="the run's name")
    parser.add_argument("--address", required=True, help="address to listen on")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument("--parent", type=int, required=True, help="process to exit with")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    # An interrupt from the terminal is for training, which terminates this process when it exits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    served, tail = Served(options.run), Tail(options.events)
    # Read the whole log first: a counter that catches up would look like a burst.
    while lines := tail.lines():
        served.take(lines)

    def wanted() -> bool:
        return os.getppid() == options.parent

    if not bind(options.address, options.port, served, wanted):
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
