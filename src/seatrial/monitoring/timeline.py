# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: how its time was spent, and the reason why each start ended."""

from dataclasses import dataclass, field, replace

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Bucket

MOST_STRETCHES = 2048
"""Maximum number of intervals; a chart cannot show more."""
MOST_STARTS = 512
"""Maximum number of starts."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A period of time that was spent in one way."""

    bucket: Bucket
    begin: float
    """Seconds since 1970."""
    end: float
    """Seconds since 1970."""
    attempt: int

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Stretches:
    """Takes intervals in order. Merges adjacent intervals of one kind, and short ones if many.

    A merged interval has the kind of the longer one, so their sums are not accurate; `Account` has
    accurate sums.
    """

    def __init__(self, most: int = MOST_STRETCHES) -> None:
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
        """Append an interval, or extend the last one."""
        last = self._kept[-1] if self._kept else None
        # When short intervals are merged, so are gaps between them that are no longer.
        if last is not None and self._is_next(last, stretch):
            same = last.bucket is stretch.bucket
            if same or min(last.seconds, stretch.seconds) < self._least:
                longer = last if last.seconds >= stretch.seconds else stretch
                self._kept[-1] = replace(longer, begin=last.begin, end=stretch.end)
                return
        self._kept.append(stretch)

    def _is_next(self, last: Stretch, stretch: Stretch) -> bool:
        # Attempts stay separate, unless there are more of them than can be shown.
        apart = last.attempt != stretch.attempt and self._least < stretch.end - last.begin
        return not apart and stretch.begin <= last.end + self._least

    @property
    def joined_below(self) -> float:
        """Seconds below which an interval may be merged into its neighbour; 0 if none is."""
        return self._least

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return tuple(self._kept)


@dataclass(frozen=True, slots=True)
class Started:
    """One start of the processes and its outcome."""

    attempt: int
    began: float
    """When training started, seconds since 1970."""
    first_step: int
    """The step that it resumed from."""
    last_step: int
    """The newest step that it finished."""
    ended: float | None = None
    """Time of its last event; None while it runs."""
    cause: str = ""
    """The reported reason why it ended; empty while it runs."""
    lost_steps: int = 0
    """Steps that the next start repeated."""


@dataclass(slots=True)
class Starts:
    """The starts of a run, from its events; only the newest are kept."""

    kept: list[Started] = field(default_factory=list)
    """The starts, oldest first."""
    total: int = 0
    """All starts, kept or not."""
    _attempt: int = 0
    _last: float = 0.0

    def begin(self, attempt: int) -> None:
        self._attempt = attempt

    def take(self, event: Event) -> None:
        match event.kind:
            case EventKind.START:
                self._close("processes disappeared without an exit event")
                if self.kept:
                    lost = max(0, self.kept[-1].last_step - event.step)
                    self.kept[-1] = replace(self.kept[-1], lost_steps=lost)
                self.total += 1
                new = Started(self._attempt, event.time, event.step, event.step)
                self.kept = [*self.kept[-MOST_STARTS + 1 :], new]
            case EventKind.STEP:
                if not self.kept or self.kept[-1].ended is not None:
                    # The log has no start events.
                    self.total += 1
                    self.kept.append(Started(self._attempt, event.time, event.step - 1, event.step))
                self.kept[-1] = replace(self.kept[-1], last_step=event.step)
            case EventKind.EXIT:
                self._close(_said(event))
            case _:
                pass
        self._last = event.time

    def end(self, reason: str) -> None:
        """End an attempt; `reason` may be empty."""
        if self.kept and self.kept[-1].attempt == self._attempt:
            known = self.kept[-1]
            if known.ended is None:
                self._close(reason or "processes disappeared without an exit event")
            elif reason and reason not in known.cause:
                self.kept[-1] = replace(known, cause=f"{reason}; {known.cause}")

    def _close(self, cause: str) -> None:
        if self.kept and self.kept[-1].ended is None:
            self.kept[-1] = replace(self.kept[-1], ended=self._last, cause=cause)


def _said(event: Event) -> str:
    """Return the reason that the processes reported."""
    code, error = event.values.get("code"), event.values.get("error")
    if error:
        return str(error).strip().splitlines()[0][:200]
    return "exited normally" if code == 0 else f"exited with code {code}"
