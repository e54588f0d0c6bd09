# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The state of a run as plain lines, for pipes, logs and simple terminals."""

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
"""The time between progress lines."""
BEFORE = 8
"""The number of past events to print first."""


def say_lines(
    history: RunHistory, *, follow: bool, now: Callable[[], float] = time.monotonic
) -> None:
    """Print past events, then new ones as they occur, and the progress every 30 seconds."""
    reading = LiveReading(history, follow=follow, now=now)
    view = reading.view
    printed, past_printed, known, news = 0.0, False, 0, False
    for part in history.story(follow=follow):
        reading.take(part)
        if reading.caught_up and not past_printed:
            past_printed = True
            _print_past(reading)
            printed = now()
        elif past_printed:
            new = view.notable - known
            for event in list(view.events)[-new:] if new else ():
                say(f"{clock(event.time)}  {event_words(event)}")
            news = news or bool(new) or isinstance(part, Event)
        known = view.notable
        if past_printed and now() - printed >= EVERY_SECONDS:
            printed = now()
            say(f"{clock(time.time())}  {panels.status_line(view)}{_quiet(view)}")
            sys.stdout.flush()
    if not past_printed:
        _print_past(reading)
    elif news:
        _print_state(reading)


def _quiet(view: RunView) -> str:
    """Format the time since the last event. Empty if it is short."""
    words = panels.quiet_words(view, time.time())
    return f" · {words}" if words else ""


def _print_past(reading: LiveReading) -> None:
    """Print the past events and the current state."""
    view = reading.view
    if view.first_time is None:
        if not reading.history.is_live():
            raise empty_history(reading.history)
        say(f"{reading.history.name}  {reading.history.place}: no events yet.")
        return
    say(f"{reading.history.name}  attempt {reading.attempt}, {reading.history.place}")
    for event in list(view.events)[-BEFORE:]:
        say(f"{clock(event.time)}  {event_words(event)}")
    _print_state(reading)


def _print_state(reading: LiveReading) -> None:
    """Print the progress and how the time was spent."""
    view = reading.view
    spent = view.goodput()
    if view.last_time is None:
        return
    say(f"{clock(view.last_time)}  {panels.status_line(view)}")
    if spent.wall:
        say(f"time      {span(spent.wall)}: {goodput_words(spent)}")
    sys.stdout.flush()
