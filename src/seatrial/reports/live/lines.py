# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run in plain lines, for pipes, logs and terminals that can do no more."""

import sys
import time
from collections.abc import Callable

from seatrial.monitoring.event_log import Event
from seatrial.monitoring.view import RunView
from seatrial.reports.live import panels
from seatrial.reports.live.reading import LiveReading
from seatrial.reports.run_phrases import clock, event_words, goodput_words, span
from seatrial.reports.terminal import say
from seatrial.runs.history.history import RunHistory, empty_history

EVERY_SECONDS = 30.0
"""How often a line says how far it is."""
BEFORE = 8
"""Notable events of before that are told to begin with."""


def say_lines(
    history: RunHistory, *, follow: bool, now: Callable[[], float] = time.monotonic
) -> None:
    """Say how a run is, then what happens; every half minute how far it is."""
    reading = LiveReading(history, follow=follow, now=now)
    view = reading.view
    said, told_before, known, news = 0.0, False, 0, False
    for told in history.story(follow=follow):
        reading.take(told)
        if reading.caught_up and not told_before:
            told_before = True
            _say_before(reading)
            said = now()
        elif told_before:
            new = view.notable - known
            for event in list(view.events)[-new:] if new else ():
                say(f"{clock(event.time)}  {event_words(event)}")
            news = news or bool(new) or isinstance(told, Event)
        known = view.notable
        if told_before and now() - said >= EVERY_SECONDS:
            said = now()
            say(f"{clock(time.time())}  {panels.status_line(view)}{_quiet(view)}")
            sys.stdout.flush()
    if not told_before:
        _say_before(reading)
    elif news:
        _say_end(reading)


def _quiet(view: RunView) -> str:
    """How long nothing has been told, where that is long."""
    words = panels.quiet_words(view, time.time())
    return f" · {words}" if words else ""


def _say_before(reading: LiveReading) -> None:
    """What has happened so far."""
    view = reading.view
    if view.first_time is None:
        if not reading.history.is_live():
            raise empty_history(reading.history)
        say(f"{reading.history.name}  {reading.history.place}: nothing is written yet.")
        return
    say(f"{reading.history.name}  attempt {reading.attempt}, {reading.history.place}")
    for event in list(view.events)[-BEFORE:]:
        say(f"{clock(event.time)}  {event_words(event)}")
    _say_end(reading)


def _say_end(reading: LiveReading) -> None:
    """How far it is, and where its time went."""
    view = reading.view
    spent = view.goodput()
    if view.last_time is None:
        return
    say(f"{clock(view.last_time)}  {panels.status_line(view)}")
    if spent.wall:
        say(f"time      {span(spent.wall)}: {goodput_words(spent)}")
    sys.stdout.flush()
