# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A made-up run of which everything is known: two starts, saves, an evaluation, a slow rank."""

import math

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import sum_up
from seatrial.monitoring.view import RunView

NOON = 1_794_744_000.0
TOKENS = 8 * 128


def started(step: int, at: float, ranks: int = 16) -> Event:
    told = {"world_size": ranks, "global_batch_size": 8, "sequence_length": 128}
    return Event(EventKind.START, step, at, {"began": at - 10, "total_steps": 40, **told})


def steps(first: int, last: int, at: float, *, ranks: int = 16, slow: int = 5) -> list[Event]:
    """Steps of two seconds; every fifth tells of the ranks, of which one takes half more."""
    events = []
    for step in range(first, last + 1):
        at += 2.0
        parts = {"data": 0.1, "compute": 1.5, "other": 0.4}
        values = {"seconds": 2.0, "loss": 10 / step, "grad_norm": 1.0, "parts": parts}
        events.append(Event(EventKind.STEP, step, at, values))
        if step % 5 == 0:
            busy = [1.5 if rank == slow else 1.0 for rank in range(ranks)]
            events.append(Event(EventKind.RANKS, step, at, {"busy": sum_up(busy).to_dict()}))
    return events


def whole_run() -> list[Event]:
    """Twenty steps, a save at ten that counts, a death, and the rest."""
    first = steps(1, 10, NOON)
    second = steps(11, 18, NOON + 24)
    again = NOON + 100
    return [
        started(0, NOON),
        *first,
        Event(EventKind.SAVE, 10, NOON + 24, {"seconds": 4.0}),
        *second,
        started(10, again),
        *steps(11, 40, again),
        Event(EventKind.EVALUATION, 40, again + 63, {"seconds": 3.0, "loss": 0.3}),
        Event(EventKind.FINDING, 40, again + 63, {"code": "ST-X-001", "rule": "slow."}),
        Event(EventKind.EXIT, 40, again + 64, {"code": 0}),
    ]


def seen(events: list[Event], submitted: float = NOON - 20) -> RunView:
    """The run as it is shown."""
    view = RunView()
    view.begin(1, submitted)
    for event in events:
        view.take(event)
    view.end(None)
    return view


def spike(step: int, at: float) -> Event:
    return Event(EventKind.STEP, step, at, {"seconds": 2.0, "loss": math.nan})
