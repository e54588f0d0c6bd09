# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Account for the wall-clock time of a run, over all its attempts.

Every moment between the submission and the end of an attempt is in exactly one bucket, so the
buckets add up to the wall-clock time. Time between two attempts, when no job was submitted, is not
wall-clock time; it is reported separately.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.hang_timeouts import STEP_FACTOR, STEP_FLOOR

_RECENT = 64


class Bucket(StrEnum):
    """How the time of an attempt is spent."""

    TRAINING = "training"
    """Steps that no attempt had done before."""
    REPLAYED = "replayed"
    """Steps that were done before and lost, and the unfinished step before a failure."""
    SAVING = "saving"
    """Training was paused while a checkpoint was written or staged."""
    EVALUATING = "evaluating"
    """Training was paused for an evaluation."""
    STARTING = "starting"
    """From the start of the processes to the start of training: imports, groups, loading."""
    WAITING = "waiting"
    """From a submission, or the exit of processes, until processes start: queue, nodes, images."""
    HUNG = "hung"
    """No progress for longer than a step may take."""


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """One submission of a run."""

    events: Iterable[Event]
    """The events of its log."""
    submitted: float | None = None
    """When it was submitted, seconds since 1970; None for a log from another tool."""
    ended: float | None = None
    """When it was observed to have ended; None while it runs, or for a log from another tool."""


@dataclass(frozen=True, slots=True)
class Goodput:
    """The wall-clock time of a run by bucket."""

    seconds: Mapping[Bucket, float]
    """Seconds in each bucket; they add up to the wall-clock time."""
    attempts: int
    restarts: int
    """Restarts of the processes within an attempt."""
    replayed_steps: int
    """Steps that were repeated."""
    between: float
    """Seconds between attempts, which are not wall-clock time."""
    clipped: float
    """Seconds by which events exceed the time that passed: how far the log contradicts itself."""

    @property
    def wall(self) -> float:
        """Seconds from submission to end, over all attempts."""
        return sum(self.seconds.values())

    @property
    def share(self) -> float:
        """Share of the wall-clock time spent on new steps; 0 before there is any."""
        return self.seconds[Bucket.TRAINING] / self.wall if self.wall else 0.0


Booked = Callable[[Bucket, float, float], None]
"""Callback for each interval: its bucket, start and end in seconds since 1970."""


class Account:
    """Accounts for the time of a run event by event, in constant memory."""

    def __init__(self, booked: Booked | None = None) -> None:
        """Start before the first attempt. `booked` is called for every interval."""
        self._booked = booked
        self._seconds = dict.fromkeys(Bucket, 0.0)
        self._cursor: float | None = None
        self._up = self._warm = False
        self._started_before = self._announced = False
        self._highest = 0
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._attempts = self._restarts = self._replayed = 0
        self._between = self._clipped = 0.0

    def begin(self, submitted: float | None = None) -> None:
        """Start an attempt at the time of its submission."""
        self._attempts += 1
        if self._cursor is not None and submitted is not None:
            self._between += max(0.0, submitted - self._cursor)
            self._cursor = max(self._cursor, submitted)
        elif submitted is not None:
            self._cursor = submitted
        elif self._attempts > 1:
            # The submission time is unknown: start at the first event.
            self._cursor = None
        self._up = self._started_before = self._announced = False

    def take(self, event: Event) -> None:
        """Account for the time up to an event."""
        if self._attempts == 0:
            self.begin()
        if self._cursor is None:
            self._cursor = min(event.time, _began(event) or event.time)
        match event.kind:
            case EventKind.RESTART | EventKind.START:
                self._started(event)
            case EventKind.STEP:
                self._stepped(event)
            case EventKind.SAVE:
                self._paused(event, Bucket.SAVING)
            case EventKind.EVALUATION:
                self._paused(event, Bucket.EVALUATING)
            case EventKind.EXIT:
                self._exited(event)
            case _:
                # The time of the other events is part of a step.
                pass

    def end(self, ended: float | None = None) -> None:
        """End an attempt, or account up to now. Without a time, it ends with its last event."""
        if ended is not None and self._cursor is not None:
            self._lost(ended, Bucket.REPLAYED)
        self._up = False

    def result(self) -> Goodput:
        """Return the current totals."""
        return Goodput(
            MappingProxyType(dict(self._seconds)),
            self._attempts,
            self._restarts,
            self._replayed,
            self._between,
            self._clipped,
        )

    def patience(self) -> float:
        """Return the seconds after which a step counts as hung."""
        return max(STEP_FLOOR, STEP_FACTOR * self._usual())

    def _book(self, bucket: Bucket, until: float) -> None:
        """Add the time up to a moment to a bucket; ignore a clock that runs backwards."""
        if self._cursor is not None and until > self._cursor:
            self._seconds[bucket] += until - self._cursor
            if self._booked is not None:
                self._booked(bucket, self._cursor, until)
            self._cursor = until

    def _lost(self, until: float, rest: Bucket) -> None:
        """Account for time without events, after which the processes were gone."""
        if self._cursor is None:
            return
        if not self._up:
            self._book(Bucket.WAITING, until)
            return
        # The unfinished step will be repeated; time far beyond a step counts as hung.
        hung = until - self._cursor > self.patience()
        self._book(Bucket.REPLAYED, min(until, self._cursor + self._usual()))
        self._book(Bucket.HUNG if hung else rest, until)

    def _usual(self) -> float:
        """Return the median seconds of recent steps."""
        return statistics.median(self._recent) if self._recent else 0.0

    def _started(self, event: Event) -> None:
        """Handle the start of processes or of training."""
        began = _began(event)
        # The supervisor does not announce a restart of torchrun; a second start event shows it.
        again = event.kind is EventKind.START and self._started_before and not self._announced
        if event.kind is EventKind.RESTART or again:
            self._restarts += 1
        self._announced = event.kind is EventKind.RESTART
        self._started_before = True
        if began is not None:
            self._lost(began, Bucket.WAITING)
        # If the log does not state when processes started, all the time counts as starting.
        self._book(Bucket.STARTING, event.time)
        self._up = event.kind is EventKind.START
        self._warm = False

    def _stepped(self, event: Event) -> None:
        cursor = self._cursor or event.time
        steps = max(1, int(event.values.get("steps") or 1))
        each = _seconds(event)
        again = event.step <= self._highest
        bucket = Bucket.REPLAYED if again else Bucket.TRAINING
        self._replayed += steps if again else 0
        self._highest = max(self._highest, event.step)
        gap = max(0.0, event.time - cursor)
        if each is not None and self._up:
            self._clipped += max(0.0, each * steps - gap)
        # The first step after a start is warm-up and is not compared with the others.
        if self._warm and gap > steps * self.patience():
            self._book(bucket, cursor + steps * self._usual())
            self._book(Bucket.HUNG, event.time)
        self._book(bucket, event.time)
        self._recent.append(gap / steps if each is None else each)
        self._up = self._warm = True

    def _paused(self, event: Event, bucket: Bucket) -> None:
        """Handle the end of a save or an evaluation."""
        taken = _seconds(event)
        if taken is None:
            # The log does not state the duration: count everything since the previous line.
            self._book(bucket, event.time)
            return
        cursor = self._cursor or event.time
        self._clipped += max(0.0, taken - max(0.0, event.time - cursor))
        self._book(Bucket.TRAINING, event.time - taken)
        self._book(bucket, event.time)

    def _exited(self, event: Event) -> None:
        """Handle the exit event of the processes."""
        began = _began(event)
        if began is not None and not self._up:
            self._book(Bucket.WAITING, began)
            self._book(Bucket.STARTING, event.time)
        elif event.values.get("code") == 0 and self._up:
            # After the last step: closing files, destroying process groups.
            self._book(Bucket.TRAINING, event.time)
        else:
            self._lost(event.time, Bucket.REPLAYED)
        self._up = False


def account(attempts: Iterable[AttemptTimes]) -> Goodput:
    """Account for the wall-clock time of a run."""
    books = Account()
    for attempt in attempts:
        books.begin(attempt.submitted)
        for event in attempt.events:
            books.take(event)
        books.end(attempt.ended)
    return books.result()


def _seconds(event: Event) -> float | None:
    value = event.values.get("seconds")
    return float(value) if isinstance(value, (int, float)) and 0 <= value < float("inf") else None


def _began(event: Event) -> float | None:
    """Return when the process of an event was created."""
    value = event.values.get("began")
    return float(value) if isinstance(value, (int, float)) else None
