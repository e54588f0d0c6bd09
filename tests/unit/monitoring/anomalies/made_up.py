# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs made up for the tests of detectors: healthy ones with noise, and what is done to them."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from seatrial.codes.anomalies import AnomalyCode
from seatrial.monitoring.anomalies.detector import AnomalyPhase, Expectations, Notice
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import lags, sum_up

STEP = 1.0
RANKS = 8

Change = Callable[[int, dict[str, Any]], None]
"""Given a step and what is told of it: loss, grad_norm, seconds, busy (by rank), data, skipped."""


def run(
    steps: int, change: Change | None = None, seed: int = 0, every: int = 1, noise: float = 0.05
) -> Iterator[Event]:
    """The events of a run; the ranks report every so many steps."""
    draw = random.Random(seed)  # noqa: S311  (noise, not a secret)
    yield Event(EventKind.START, 0, 0.0, {"world_size": RANKS})
    clock = 0.0
    for step in range(1, steps + 1):
        told: dict[str, Any] = {
            "loss": 8 * step**-0.15 * draw.gauss(1, 0.01),
            "grad_norm": draw.lognormvariate(-1, 0.3),
            "seconds": STEP * draw.lognormvariate(0, noise),
            "busy": [0.8 * STEP * draw.lognormvariate(0, noise) for _ in range(RANKS)],
            "data": [0.004 * STEP] * RANKS,
            "skipped": False,
        }
        if change is not None:
            change(step, told)
        busy, data = told.pop("busy"), told.pop("data")
        clock += told["seconds"]
        yield Event(EventKind.STEP, step, clock, told)
        if step % every == 0:
            figures = {"busy": sum_up(busy), "data": sum_up(data)}
            figures["lag"] = sum_up(lags(busy, [0] * RANKS))
            plain = {name: figure.to_dict() for name, figure in figures.items()}
            yield Event(EventKind.RANKS, step, clock, plain)


def notices(events: Iterable[Event], expected: Expectations | None = None) -> list[Notice]:
    """What a monitor reports about them."""
    keeper = AnomalyMonitor(expected)
    return [notice for event in events for notice in keeper.observe(event)]


def began(found: list[Notice]) -> list[tuple[AnomalyCode, int]]:
    """Code and step of what began."""
    return [(AnomalyCode(n.finding.code), n.step) for n in found if n.phase is AnomalyPhase.BEGAN]


def ended(found: list[Notice]) -> list[tuple[AnomalyCode, int]]:
    """Code and step of what ended."""
    return [(AnomalyCode(n.finding.code), n.step) for n in found if n.phase is AnomalyPhase.ENDED]
