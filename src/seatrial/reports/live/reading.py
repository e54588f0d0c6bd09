# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read a run's history into a view while it is being shown."""

import threading
import time
from collections.abc import Callable, Iterator

from seatrial.errors import SeatrialError
from seatrial.monitoring.event_log import Event
from seatrial.monitoring.view import RunView
from seatrial.runs.history.history import Begun, Over, Quiet, RunHistory, Told


class LiveReading:
    """Reads a history into a view. Hold `lock` while you read the view."""

    def __init__(
        self,
        history: RunHistory,
        *,
        follow: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to read a history; `run` starts reading."""
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
        self._last_event = now()

    def take(self, part: Told) -> None:
        """Add one part of the history to the view."""
        if isinstance(part, Event):
            self.view.take(part)
            self._last_event = self._now()
        elif isinstance(part, Begun):
            self.attempt = part.attempt.number
            self.view.begin(part.attempt.number, part.attempt.submitted)
        elif isinstance(part, Over):
            self.view.end(part.attempt.ended, part.attempt.ending)
        else:
            self.caught_up = True
            # Use the local clock: a log from another tool may have a different time zone.
            self.view.pass_time(self._now() - self._last_event)

    def run(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Read until the history ends or `stopped` returns True."""
        try:
            for batch in _batches(self.history.story(follow=self._follow)):
                with self.lock:
                    for part in batch:
                        self.take(part)
                if stopped():
                    return
        except SeatrialError as error:
            self.trouble = str(error)
        except Exception as error:
            self.trouble = f"cannot read the run: {type(error).__name__}: {error}"
        finally:
            self.caught_up = self.done = True


def _batches(story: Iterator[Told], most: int = 500) -> Iterator[list[Told]]:
    """Group the parts of a history, so that the lock is not taken for each event."""
    batch: list[Told] = []
    for part in story:
        batch.append(part)
        if len(batch) >= most or isinstance(part, Quiet):
            yield batch
            batch = []
    yield batch
