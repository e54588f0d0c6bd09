# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The history of a run: its attempts, their events, and the output of its ranks.

It is read lazily and not held in memory, so it can have any length.
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
from seatrial.planning.choices import LAYOUT_FIELDS
from seatrial.planning.plan import Plan
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.runs.kept_plan import find
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord
from seatrial.runs.namespace import Site
from seatrial.spec.loader import load


class EventSource(Protocol):
    """A source of the events of one or more attempts."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """Yield the events in order. When followed, None means that there is no new event yet."""


@dataclass(frozen=True, slots=True)
class RankLog:
    """The output of one process or of all processes of a node."""

    name: str
    """The name that messages show for its lines: a path, or the pods of a run."""
    lines: Callable[[], Iterator[bytes]]
    """Yields its lines from the first one, without line endings."""


@dataclass(frozen=True, slots=True)
class AttemptHistory:
    """The history of one attempt."""

    number: int
    """Starts at 1."""
    source: EventSource
    """The source of its events. Several attempts may share one."""
    submitted: float | None = None
    """The submission time in seconds since 1970. None for a log from elsewhere."""
    ended: float | None = None
    """The end time. None while it runs, or for a log from elsewhere."""
    outcome: AttemptOutcome | None = None
    """The outcome, if it is recorded."""
    reason: str = ""
    """The reason for the outcome."""
    logs: tuple[RankLog, ...] = ()
    """The output of its processes."""
    until: float | None = None
    """The submission time of the next attempt with the same source."""
    name: str = ""
    """The file that it was read from."""

    @property
    def ending(self) -> str:
        """The outcome and its reason. Empty while it runs, or if no end is recorded."""
        return ": ".join(filter(None, (str(self.outcome or ""), self.reason)))

    def events(self) -> Iterator[Event]:
        for event in self.source.events():
            if event is not None and self.holds(event):
                yield event

    def holds(self, event: Event) -> bool:
        """True if an event of the source belongs to this attempt."""
        # The first attempt also gets older events: a clock may be wrong, or a log reused.
        early = self.number > 1 and self.submitted is not None and event.time < self.submitted
        return not early and (self.until is None or event.time < self.until)


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt starts."""

    attempt: AttemptHistory


@dataclass(frozen=True, slots=True)
class Over:
    """An attempt ended, as far as is known."""

    attempt: AttemptHistory


@dataclass(frozen=True, slots=True)
class Quiet:
    """No new event has arrived yet."""


Told = Begun | Event | Over | Quiet
"""The items of a story."""


PAUSE_SECONDS = 1.0
"""How often to look for another attempt at the end of a source."""
_FIRST_WORDS = (EventKind.PREFLIGHT, EventKind.START, EventKind.RESTART, EventKind.EXIT)
"""The kinds that the first event of an attempt can have."""


def _over() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The history of a run, with its plan if that is known."""

    name: str
    """The name of the run or of the file."""
    place: str
    """Where it was found, for messages."""
    look: Callable[[], tuple[AttemptHistory, ...]]
    """Returns the current attempts, oldest first."""
    plan: Plan | None = None
    """The plan, if it is known."""
    forecast: Forecast | None = None
    """The plan's predictions of time and memory, if there are any."""
    is_live: Callable[[], bool] = field(default=_over)
    """True if more events may follow."""
    sleep: Callable[[float], None] = time.sleep
    """Waits between reads of a live run."""
    only_words: bool = False
    """True if only the log can show that the run ended; a log that stops growing does not."""
    site: Site | None = None
    """The namespace of its cluster. None if it was found on this host."""

    @property
    def attempts(self) -> tuple[AttemptHistory, ...]:
        """The current attempts, oldest first."""
        return self.look()

    def story(self, *, follow: bool = False) -> Iterator[Told]:
        """Yield everything in order, in one pass. With `follow`, continue while the run is live."""
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
        """Yield the story of attempts that share a source. Return how many there were."""
        waiting, now, count, last = deque(shared[1:]), shared[0], 1, False
        lasting = _Lasting()
        yield Begun(now)
        for event in now.source.events(follow=follow):
            if event is None or (follow and event.kind in _FIRST_WORDS):
                # Another attempt may have been launched in the meantime.
                now, waiting = self._again(now)
            if event is None:
                yield Quiet()
                # Checked before the last read, so that no event in between is lost.
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
        """Return the current state of an attempt, and the attempts after it."""
        known = self.look()
        same = next((attempt for attempt in known if attempt.number == now.number), now)
        return same, deque(attempt for attempt in known if attempt.number > now.number)


def empty_history(history: RunHistory) -> UsageError:
    """Return the error for a history without events."""
    return UsageError(
        f"{history.place} contains no steps, saves or starts. Is it the log of a run? Pass the "
        "event log (events.jsonl in the run's directory), or the output of Megatron-LM or "
        "Composer."
    )


@dataclass(slots=True)
class _Lasting:
    """Tracks whether the log itself shows the end of training."""

    goes_on: bool = False
    """True if training has started, and neither an exit nor the last step was logged."""
    _total: float | None = None

    def take(self, event: Event) -> None:
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
    """Return the leading attempts that share a source."""
    return list(itertools.takewhile(lambda one: one.source == attempts[0].source, attempts))


def seconds_since_1970(utc: str) -> float | None:
    """Convert a ledger's time to seconds. None if it is empty or invalid."""
    try:
        return datetime.fromisoformat(utc).timestamp()
    except ValueError:
        return None


def attempts_of(
    records: Sequence[AttemptRecord],
    source: EventSource,
    logs: Callable[[int], tuple[RankLog, ...]],
) -> tuple[AttemptHistory, ...]:
    """Return the attempts of a ledger that write to one event log."""
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
    """A plan with its predictions."""

    plan: Plan
    forecast: Forecast | None
    """The predicted time and memory. None on a host without GPUs."""


def planned(spec_file: Path, beside: Path, catalog: Catalog) -> Planned | None:
    """Return the plan of a spec with the choices stored in a directory, or None.

    A spec that no longer resolves must not prevent its run from being shown.
    """
    try:
        basis = resolve_basis(load(spec_file, ()), catalog)
        found = find(basis, beside / spec_file.name)
        if found.run is None and any(field in LAYOUT_FIELDS for field in basis.open_fields):
            # Use only stored choices: a search would be too slow here.
            return None
        run = found.run or plan_run(basis, calibration=found.calibration)
    except (SeatrialError, OSError):
        return None
    return with_forecast(run)


def with_forecast(run: PlannedRun) -> Planned:
    """Return a plan with its predictions."""
    chosen, error = run.chosen, run.time_error
    if chosen is None or error is None:
        return Planned(run.plan, None)
    worth = basis_of(chosen.workload, chosen.time)
    return Planned(run.plan, Forecast(chosen.time, chosen.memory, worth, error.nine_of_ten))
