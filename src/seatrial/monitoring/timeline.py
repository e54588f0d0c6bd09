# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""When a run did what: stretches of time with what they were spent on, and why each start ended."""

from dataclasses import dataclass, field, replace

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Bucket

MOST_STRETCHES = 2048
"""Stretches that are kept; more cannot be told apart in a picture."""
MOST_STARTS = 512
"""Starts that are kept one by one."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some time that was spent on one thing."""

    bucket: Bucket
    begin: float
    """Seconds since 1970."""
    end: float
    """Seconds since 1970."""
    attempt: int

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end - self.begin


class Stretches:
    """Takes stretches in order; neighbours of one kind are joined, and short ones where many are.

    What is joined keeps the kind of the longer one, so that sums of stretches are no account: for
    sums there is the account.
    """

    def __init__(self, most: int = MOST_STRETCHES) -> None:
        """Keep at most so many."""
        self._most = most
        self._least = 0.0
        self._kept: list[Stretch] = []

    def take(self, stretch: Stretch) -> None:
        self._add(stretch)
        while len(self._kept) > self._most:
            lengths = sorted(stretch.seconds for stretch in self._kept)
            self._least = max(lengths[len(lengths) // 2], self._least * 2, 1e-3)
            kept, self._kept = self._kept, []
            for one in kept:
                self._add(one)

    def _add(self, stretch: Stretch) -> None:
        """Add a stretch, or make the last one longer."""
        last = self._kept[-1] if self._kept else None
        # Where many are joined, so is a gap between them that is no longer than what is joined.
        if last is not None and self._is_next(last, stretch):
            same = last.bucket is stretch.bucket
            if same or min(last.seconds, stretch.seconds) < self._least:
                longer = last if last.seconds >= stretch.seconds else stretch
                self._kept[-1] = replace(longer, begin=last.begin, end=stretch.end)
                return
        self._kept.append(stretch)

    def _is_next(self, last: Stretch, stretch: Stretch) -> bool:
        # Attempts stay apart, unless there are more of them than can be shown.
        apart = last.attempt != stretch.attempt and self._least < stretch.end - last.begin
        return not apart and stretch.begin <= last.end + self._least

    @property
    def joined_below(self) -> float:
        """Seconds below which a stretch may be part of its neighbour; 0 where all are told."""
        return self._least

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The stretches in order."""
        return tuple(self._kept)


@dataclass(frozen=True, slots=True)
class Started:
    """One start of the processes, and how it went."""

    attempt: int
    began: float
    """When training began, seconds since 1970."""
    first_step: int
    """The step that it went on from."""
    last_step: int
    """The newest step that it did."""
    ended: float | None = None
    """When its last event was; nothing while it goes on."""
    cause: str = ""
    """Why it ended, in the words of whoever said it; empty while it goes on."""
    lost_steps: int = 0
    """Steps that the next start did again."""


@dataclass(slots=True)
class Starts:
    """The starts of a run, from its events; beyond a number only the newest are kept."""

    kept: list[Started] = field(default_factory=list)
    """The starts, the oldest first."""
    total: int = 0
    """All starts, kept or not."""
    _attempt: int = 0
    _last: float = 0.0

    def begin(self, attempt: int) -> None:
        self._attempt = attempt

    def take(self, event: Event) -> None:
        """Take in one event."""
        match event.kind:
            case EventKind.START:
                self._close("processes were gone without a word")
                if self.kept:
                    lost = max(0, self.kept[-1].last_step - event.step)
                    self.kept[-1] = replace(self.kept[-1], lost_steps=lost)
                self.total += 1
                new = Started(self._attempt, event.time, event.step, event.step)
                self.kept = [*self.kept[-MOST_STARTS + 1 :], new]
            case EventKind.STEP:
                if not self.kept or self.kept[-1].ended is not None:
                    # A log that does not tell of starts.
                    self.total += 1
                    self.kept.append(Started(self._attempt, event.time, event.step - 1, event.step))
                self.kept[-1] = replace(self.kept[-1], last_step=event.step)
            case EventKind.EXIT:
                self._close(_said(event))
            case _:
                pass
        self._last = event.time

    def end(self, reason: str) -> None:
        """An attempt is over, for a reason that may be known."""
        if self.kept and self.kept[-1].attempt == self._attempt:
            known = self.kept[-1]
            if known.ended is None:
                self._close(reason or "processes were gone without a word")
            elif reason and reason not in known.cause:
                self.kept[-1] = replace(known, cause=f"{reason}; {known.cause}")

    def _close(self, cause: str) -> None:
        if self.kept and self.kept[-1].ended is None:
            self.kept[-1] = replace(self.kept[-1], ended=self._last, cause=cause)


def _said(event: Event) -> str:
    """How processes ended by their own words."""
    code, error = event.values.get("code"), event.values.get("error")
    if error:
        return str(error).strip().splitlines()[0][:200]
    return "ended by itself" if code == 0 else f"ended with code {code}"
