# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is written of a run, wherever it is: its attempts, their events, what its ranks printed.

Nothing is read before somebody asks for it, and nothing is kept: a history of any length is gone
through line by line.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from seatrial.catalog.catalog import Catalog
from seatrial.errors import SeatrialError, UsageError
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.prediction import Forecast
from seatrial.monitoring.utilisation import basis_of
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.runs.kept_plan import find
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord
from seatrial.runs.namespace import Site
from seatrial.spec.loader import load


class EventSource(Protocol):
    """Where events of an attempt, or of all, are read from."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """The events in order; followed, nothing stands for a moment without news."""


@dataclass(frozen=True, slots=True)
class RankLog:
    """What one process, or all of a node, printed."""

    name: str
    """How it is called when a line of it is quoted: a path, or the pods of a run."""
    lines: Callable[[], Iterator[bytes]]
    """Its lines, without their ends, from the first one on."""


@dataclass(frozen=True, slots=True)
class AttemptHistory:
    """What is written of one attempt."""

    number: int
    """Counted from 1."""
    source: EventSource
    """Where its events are; several attempts may share one."""
    submitted: float | None = None
    """When it was submitted, seconds since 1970; unknown for a log from elsewhere."""
    ended: float | None = None
    """When it was seen to be over; unknown while it runs, or for a log from elsewhere."""
    outcome: AttemptOutcome | None = None
    """How it ended, as far as that is noted."""
    reason: str = ""
    """Why, in words."""
    logs: tuple[RankLog, ...] = ()
    """What its processes printed."""
    until: float | None = None
    """When the next attempt that shares the source was submitted."""
    name: str = ""
    """What it is called beside its number: the file that it was read from."""

    @property
    def ending(self) -> str:
        """How and why it ended, in words; empty while it goes on, or where nobody has noted it."""
        return ": ".join(filter(None, (str(self.outcome or ""), self.reason)))

    def events(self) -> Iterator[Event]:
        """Its events in order."""
        for event in self.source.events():
            if event is not None and self.holds(event):
                yield event

    def holds(self, event: Event) -> bool:
        """Whether an event of the source is of this attempt."""
        # The first attempt takes what is older too: a clock may be wrong, a log may be reused.
        early = self.number > 1 and self.submitted is not None and event.time < self.submitted
        return not early and (self.until is None or event.time < self.until)


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt begins."""

    attempt: AttemptHistory


@dataclass(frozen=True, slots=True)
class Over:
    """An attempt is over, as far as anybody knows."""

    attempt: AttemptHistory


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing new has come for a moment."""


Told = Begun | Event | Over | Quiet
"""What a story is made of."""


PAUSE_SECONDS = 1.0
"""How often it is looked for another attempt once a source has ended."""
_FIRST_WORDS = (EventKind.START, EventKind.RESTART, EventKind.EXIT)
"""What the first event of an attempt can be."""


def _over() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class RunHistory:
    """What is written of a run."""

    name: str
    """The run's name, or the file's."""
    place: str
    """Where it was found, in words."""
    look: Callable[[], tuple[AttemptHistory, ...]]
    """Its attempts at this moment, the oldest first."""
    plan: Plan | None = None
    """Its plan, where that is known."""
    forecast: Forecast | None = None
    """What the plan says of time and memory; nothing where it says nothing."""
    is_live: Callable[[], bool] = field(default=_over)
    """Whether more may come."""
    sleep: Callable[[float], None] = time.sleep
    """Waits, where a source has ended and the run has not."""
    only_words: bool = False
    """Whether nobody but the log itself knows that it is over: silence alone is no end."""
    site: Site | None = None
    """The namespace of the cluster that it runs in; None where it was found on this host."""

    @property
    def attempts(self) -> tuple[AttemptHistory, ...]:
        """Its attempts at this moment, the oldest first."""
        return self.look()

    def story(self, *, follow: bool = False) -> Iterator[Told]:
        """Everything in order, in one pass; followed, it goes on as long as the run is live."""
        told = 0
        while True:
            known = self.look()
            if told < len(known):
                shared = _sharing(known[told:])
                newest = told + len(shared) == len(known)
                told += yield from self._told(shared, follow=follow and newest)
            elif follow and self.is_live():
                yield Quiet()
                self.sleep(PAUSE_SECONDS)
            else:
                return

    def _told(
        self, shared: Sequence[AttemptHistory], *, follow: bool
    ) -> Generator[Told, None, int]:
        """The story of attempts that share a source, and how many there were."""
        waiting, now, count, last = deque(shared[1:]), shared[0], 1, False
        lasting = _Lasting()
        yield Begun(now)
        for event in now.source.events(follow=follow):
            if event is None or (follow and event.kind in _FIRST_WORDS):
                # Another attempt may have been launched since.
                now, waiting = self._again(now)
            if event is None:
                yield Quiet()
                # Looked at before the last read, so that what came in between is not lost.
                if last or (waiting and waiting[-1].source != now.source):
                    break
                last = not self.is_live() and not (self.only_words and lasting.goes_on)
                continue
            lasting.take(event)
            while waiting and not now.holds(event):
                yield Over(now)
                now = waiting.popleft()
                yield Begun(now)
                count += 1
            yield event
        waiting = deque(_sharing([now, *waiting])[1:])
        yield Over(self._again(now)[0] if follow else now)
        for attempt in waiting:
            yield Begun(attempt)
            yield Over(attempt)
        return count + len(waiting)

    def _again(self, now: AttemptHistory) -> tuple[AttemptHistory, deque[AttemptHistory]]:
        """An attempt as it is known by now, and those after it."""
        known = self.look()
        same = next((attempt for attempt in known if attempt.number == now.number), now)
        return same, deque(attempt for attempt in known if attempt.number > now.number)


def empty_history(history: RunHistory) -> UsageError:
    """The error about a history without a single event."""
    return UsageError(
        f"{history.place} tells of no step, no save and no start. Is it the log of a run? The "
        "event log is events.jsonl in the run's own directory; what Megatron-LM and Composer "
        "print is read too."
    )


@dataclass(slots=True)
class _Lasting:
    """Whether a log has said by itself that training is over."""

    goes_on: bool = False
    """Whether training has begun, and neither an end nor the last step was told."""
    _total: float | None = None

    def take(self, event: Event) -> None:
        """Take in one event."""
        total = event.values.get("total_steps")
        self._total = total if isinstance(total, (int, float)) else self._total
        match event.kind:
            case EventKind.START | EventKind.STEP:
                self.goes_on = self._total is None or event.step < self._total
            case EventKind.EXIT:
                self.goes_on = False
            case _:
                pass


def _sharing(attempts: Sequence[AttemptHistory]) -> list[AttemptHistory]:
    """The first attempts that are read from one source."""
    return list(itertools.takewhile(lambda one: one.source == attempts[0].source, attempts))


def seconds_since_1970(utc: str) -> float | None:
    """A ledger's time as a number; nothing where there is none."""
    try:
        return datetime.fromisoformat(utc).timestamp()
    except ValueError:
        return None


def attempts_of(
    records: Sequence[AttemptRecord],
    source: EventSource,
    logs: Callable[[int], tuple[RankLog, ...]],
) -> tuple[AttemptHistory, ...]:
    """The attempts of a ledger that write one event log."""
    begins = [seconds_since_1970(record.submitted) for record in records]
    return tuple(
        AttemptHistory(
            record.number,
            source,
            begin,
            seconds_since_1970(record.ended),
            record.outcome,
            record.reason,
            logs(record.number),
            after,
        )
        for record, begin, after in zip(records, begins, [*begins[1:], None], strict=True)
    )


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with what it says."""

    plan: Plan
    forecast: Forecast | None
    """What it says of time and memory; nothing on a host without GPUs."""


def planned(spec_file: Path, beside: Path, catalog: Catalog) -> Planned | None:
    """The plan of a spec, with the choices kept in a directory; nothing where there is none now.

    Whoever looks at a run must not be kept from it by a spec that no longer resolves.
    """
    try:
        basis = resolve_basis(load(spec_file, ()), catalog)
        found = find(basis, beside / spec_file.name)
        # Only what is kept: nobody waits for a search to look at a run.
        run = found.run or plan_run(basis, calibration=found.calibration, kept={})
        plan, chosen, error = run.plan, run.chosen, run.time_error
    except (SeatrialError, OSError, ValueError, TypeError, KeyError):
        return None
    if chosen is None or error is None:
        return Planned(plan, None)
    worth = basis_of(chosen.workload, chosen.time)
    return Planned(plan, Forecast(chosen.time, chosen.memory, worth, error.nine_of_ten))
