# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where the wall time of a run went, over all its attempts.

Every moment between the submission and the end of an attempt is in exactly one bucket, so the
buckets add up to the wall time. Time between two attempts, when nobody had asked for anything, is
not wall time; it is told apart.
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
    """What a moment of an attempt was spent on."""

    TRAINING = "training"
    """Steps that no attempt had done before."""
    REPLAYED = "replayed"
    """Steps that were done before and were lost, and the unfinished step before a failure."""
    SAVING = "saving"
    """Training stood still while a checkpoint was written or handed over."""
    EVALUATING = "evaluating"
    """Training stood still for an evaluation."""
    STARTING = "starting"
    """From the start of the processes to the beginning of training: imports, groups, loading."""
    WAITING = "waiting"
    """From a submission, or the end of processes, until processes start: queue, nodes, images."""
    HUNG = "hung"
    """Nothing moved, longer than a step may take."""


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """One submission of a run."""

    events: Iterable[Event]
    """What its event log tells."""
    submitted: float | None = None
    """When it was submitted, seconds since 1970; unknown for a log from elsewhere."""
    ended: float | None = None
    """When it was seen to be over; unknown while it runs, or for a log from elsewhere."""


@dataclass(frozen=True, slots=True)
class Goodput:
    """Where the time went."""

    seconds: Mapping[Bucket, float]
    """Seconds of each bucket; they add up to the wall time."""
    attempts: int
    restarts: int
    """Times that processes began again within an attempt."""
    replayed_steps: int
    """Steps that were done again."""
    between: float
    """Seconds between attempts, which are not wall time."""
    clipped: float
    """Seconds that events claim beyond the time there was: how far the log contradicts itself."""

    @property
    def wall(self) -> float:
        """Seconds from submission to end, over all attempts."""
        return sum(self.seconds.values())

    @property
    def share(self) -> float:
        """The part of the wall time in which the run got on; 0 before there is any."""
        return self.seconds[Bucket.TRAINING] / self.wall if self.wall else 0.0


Booked = Callable[[Bucket, float, float], None]
"""Told of a stretch of time: its bucket, its begin and its end, seconds since 1970."""


class Account:
    """Books the time of a run event by event; what it remembers does not grow with their number."""

    def __init__(self, booked: Booked | None = None) -> None:
        """Begin before the first attempt; whoever wants to know is told of every stretch."""
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
        """An attempt is submitted."""
        self._attempts += 1
        if self._cursor is not None and submitted is not None:
            self._between += max(0.0, submitted - self._cursor)
            self._cursor = max(self._cursor, submitted)
        elif submitted is not None:
            self._cursor = submitted
        elif self._attempts > 1:
            # Nobody knows when it was submitted: it begins with its first event.
            self._cursor = None
        self._up = self._started_before = self._announced = False

    def take(self, event: Event) -> None:
        """Book the time up to an event."""
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
                # The others tell of time that a step is booked for.
                pass

    def end(self, ended: float | None = None) -> None:
        """An attempt is over, or this is the present; without a time, it ends with its events."""
        if ended is not None and self._cursor is not None:
            self._lost(ended, Bucket.REPLAYED)
        self._up = False

    def result(self) -> Goodput:
        """Where the time went so far."""
        return Goodput(
            MappingProxyType(dict(self._seconds)),
            self._attempts,
            self._restarts,
            self._replayed,
            self._between,
            self._clipped,
        )

    def patience(self) -> float:
        """Seconds after which a step is taken to hang, by the median of recent ones."""
        return max(STEP_FLOOR, STEP_FACTOR * self._usual())

    def _book(self, bucket: Bucket, until: float) -> None:
        """Book the time up to a moment; a clock that goes back books nothing."""
        if self._cursor is not None and until > self._cursor:
            self._seconds[bucket] += until - self._cursor
            if self._booked is not None:
                self._booked(bucket, self._cursor, until)
            self._cursor = until

    def _lost(self, until: float, rest: Bucket) -> None:
        """Book time that no event accounts for and after which the processes were gone."""
        if self._cursor is None:
            return
        if not self._up:
            self._book(Bucket.WAITING, until)
            return
        # An unfinished step is work that is done again; what is far longer than a step hung.
        hung = until - self._cursor > self.patience()
        self._book(Bucket.REPLAYED, min(until, self._cursor + self._usual()))
        self._book(Bucket.HUNG if hung else rest, until)

    def _usual(self) -> float:
        """Seconds of a step, of late."""
        return statistics.median(self._recent) if self._recent else 0.0

    def _started(self, event: Event) -> None:
        """Processes came up, or training begins."""
        began = _began(event)
        # A supervisor that starts torchrun anew does not announce it; a start after another does.
        again = event.kind is EventKind.START and self._started_before and not self._announced
        if event.kind is EventKind.RESTART or again:
            self._restarts += 1
        self._announced = event.kind is EventKind.RESTART
        self._started_before = True
        if began is not None:
            self._lost(began, Bucket.WAITING)
        # A log that does not tell when processes came up: all of it is the start.
        self._book(Bucket.STARTING, event.time)
        self._up = event.kind is EventKind.START
        self._warm = False

    def _stepped(self, event: Event) -> None:
        """Steps are done."""
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
        # The first step after a start warms up and is not held against the others.
        if self._warm and gap > steps * self.patience():
            self._book(bucket, cursor + steps * self._usual())
            self._book(Bucket.HUNG, event.time)
        self._book(bucket, event.time)
        self._recent.append(gap / steps if each is None else each)
        self._up = self._warm = True

    def _paused(self, event: Event, bucket: Bucket) -> None:
        """A save or an evaluation ends."""
        taken = _seconds(event)
        if taken is None:
            # A log that does not say how long: all since the line before.
            self._book(bucket, event.time)
            return
        cursor = self._cursor or event.time
        self._clipped += max(0.0, taken - max(0.0, event.time - cursor))
        self._book(Bucket.TRAINING, event.time - taken)
        self._book(bucket, event.time)

    def _exited(self, event: Event) -> None:
        """The processes ended by themselves."""
        began = _began(event)
        if began is not None and not self._up:
            self._book(Bucket.WAITING, began)
            self._book(Bucket.STARTING, event.time)
        elif event.values.get("code") == 0 and self._up:
            # What comes after the last step: closing files, leaving groups.
            self._book(Bucket.TRAINING, event.time)
        else:
            self._lost(event.time, Bucket.REPLAYED)
        self._up = False


def account(attempts: Iterable[AttemptTimes]) -> Goodput:
    """Where the wall time of a run went."""
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
    """When the process of an event was made."""
    value = event.values.get("began")
    return float(value) if isinstance(value, (int, float)) else None
