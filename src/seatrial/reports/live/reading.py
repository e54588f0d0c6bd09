# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run's story taken into what is shown of it, while somebody looks."""

import threading
import time
from collections.abc import Callable, Iterator

from seatrial.errors import SeatrialError
from seatrial.monitoring.event_log import Event
from seatrial.monitoring.view import RunView
from seatrial.runs.history.history import Begun, Over, Quiet, RunHistory, Told


class LiveReading:
    """Takes a story into a view; whoever shows the view holds the lock meanwhile."""

    def __init__(
        self,
        history: RunHistory,
        *,
        follow: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin before the first word."""
        self.history = history
        basis = history.forecast.basis if history.forecast else None
        self.view = RunView(basis)
        self.lock = threading.Lock()
        self.attempt = 1
        self.caught_up = False
        self.done = False
        self.trouble = ""
        self._follow = follow
        self._now = now
        self._came = now()

    def take(self, told: Told) -> None:
        """Take in one part of the story."""
        if isinstance(told, Event):
            self.view.take(told)
            self._came = self._now()
        elif isinstance(told, Begun):
            self.attempt = told.attempt.number
            self.view.begin(told.attempt.number, told.attempt.submitted)
        elif isinstance(told, Over):
            self.view.end(told.attempt.ended, told.attempt.ending)
        else:
            self.caught_up = True
            # By our own clock: that of a log from elsewhere may be of another zone.
            self.view.pass_time(self._now() - self._came)

    def run(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Take in all, until the story ends or somebody stops."""
        try:
            for batch in _batches(self.history.story(follow=self._follow)):
                with self.lock:
                    for told in batch:
                        self.take(told)
                if stopped():
                    return
        except SeatrialError as error:
            self.trouble = str(error)
        except Exception as error:
            self.trouble = f"reading ended with {type(error).__name__}: {error}"
        finally:
            self.caught_up = self.done = True


def _batches(story: Iterator[Told], most: int = 500) -> Iterator[list[Told]]:
    """A story in pieces, so that a lock is not taken for each event; a pause ends a piece."""
    piece: list[Told] = []
    for told in story:
        piece.append(told)
        if len(piece) >= most or isinstance(told, Quiet):
            yield piece
            piece = []
    yield piece
