# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Everything about a run that is shown, from its events in one pass.

What it remembers is bounded: a run of any length and any number of ranks takes the same memory.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from seatrial.monitoring.anomalies.detector import AnomalyPhase, Notice
from seatrial.monitoring.anomalies.monitor import Watchkeeper
from seatrial.monitoring.eta import Outlook, outlook
from seatrial.monitoring.event_log import Event, EventKind, sanitize_event
from seatrial.monitoring.goodput import Account, Bucket, Goodput
from seatrial.monitoring.metrics import Metrics, Snapshot
from seatrial.monitoring.rank_times import RankLag, RankLags
from seatrial.monitoring.series import Series
from seatrial.monitoring.timeline import Started, Starts, Stretch, Stretches
from seatrial.monitoring.utilisation import MfuBasis

MOST_PARTS = 16
"""Parts of a step that are kept apart; an engine's timers may be any number."""
MOST_FINDINGS = 500
"""Findings that are kept, the newest ones; all are counted."""
LAST_EVENTS = 50
"""Notable events that are kept."""
NOTABLE = (
    *(EventKind.START, EventKind.RESTART, EventKind.SAVE, EventKind.SAVED),
    *(EventKind.EVALUATION, EventKind.FINDING, EventKind.EXIT),
)
"""Events that are told one by one; steps are curves."""


@dataclass(slots=True)
class Curves:
    """What is drawn against steps."""

    loss: Series = field(default_factory=Series)
    """Loss of each step."""
    grad_norm: Series = field(default_factory=Series)
    """Gradient norm of each step."""
    learning_rate: Series = field(default_factory=Series)
    """Learning rate of each step."""
    step_seconds: Series = field(default_factory=Series)
    evaluation: Series = field(default_factory=Series)
    """Loss of each evaluation on the validation split."""
    skew: Series = field(default_factory=Series)
    """How much the slowest rank was above the median rank, as a share of it."""
    checkpoint_age: Series = field(default_factory=Series)
    """Seconds of work at risk just before each save: since the save, or the start, before it."""
    save_seconds: Series = field(default_factory=Series)
    """Seconds that each save held up training."""
    parts: dict[str, Series] = field(default_factory=dict)
    """Seconds of each part of a step."""


class RunView:
    """Takes a run's attempts and events, and knows what is shown of them.

    A log that our own worker has written tells what was found while the run went on. Of any other,
    the same detectors look at its events here.
    """

    def __init__(self, basis: MfuBasis | None = None) -> None:
        """Begin before the first attempt, with what a step is worth if a plan says it."""
        self.metrics = Metrics(basis)
        self.curves = Curves()
        self.starts = Starts()
        self.stretches = Stretches()
        self.findings: deque[Event] = deque(maxlen=MOST_FINDINGS)
        self.found: Counter[str] = Counter()
        self.events: deque[Event] = deque(maxlen=LAST_EVENTS)
        self.notable = 0
        self.first_time: float | None = None
        self.last_time: float | None = None
        self.steps = 0
        self.highest = 0
        self._lowest: int | None = None
        self._account = Account(self._stretch)
        self._lags = RankLags()
        self._attempt = 0
        self._safe: float | None = None
        self._keeper: Watchkeeper | None = Watchkeeper()
        self._handlers: dict[EventKind, Callable[[Event], None]] = {
            EventKind.START: self._started,
            EventKind.STEP: self._stepped,
            EventKind.RANKS: self._compared,
            EventKind.SAVE: self._saved,
            EventKind.EVALUATION: self._evaluated,
            EventKind.FINDING: self._noticed,
        }

    def begin(self, attempt: int, submitted: float | None) -> None:
        self._attempt = attempt
        self._account.begin(submitted)
        self.starts.begin(attempt)
        self._safe = None

    def end(self, ended: float | None, reason: str = "") -> None:
        """An attempt is over."""
        self._account.end(ended)
        self.starts.end(reason)

    def take(self, told: Event) -> None:
        """Take in one event, as far as it can be believed."""
        event = sanitize_event(told)
        if event is None:
            return
        self.first_time = event.time if self.first_time is None else self.first_time
        self.last_time = event.time
        self._account.take(event)
        self.metrics.take(event)
        self.starts.take(event)
        handle = self._handlers.get(event.kind)
        if handle is not None:
            handle(event)
        if event.kind in NOTABLE:
            self._keep(event)
        if self._keeper is not None:
            self._announce(self._keeper.observe(event), event.time)

    def pass_time(self, seconds: float) -> None:
        """For so many seconds since the newest event nothing has come."""
        if self._keeper is not None and self.last_time is not None:
            now = self.last_time + seconds
            self._announce(self._keeper.pass_time(now), now)

    def _announce(self, notices: Iterable[Notice], when: float) -> None:
        """What the detectors found."""
        for notice in notices:
            found = notice.event(when)
            self._noticed(found)
            self._keep(found)

    def _keep(self, event: Event) -> None:
        """Something notable has happened."""
        self.notable += 1
        self.events.append(event)

    def _noticed(self, event: Event) -> None:
        """Something was found, or is over, which is told and not counted again."""
        if event.values.get("phase") != AnomalyPhase.ENDED:
            self.findings.append(event)
            self.found[str(event.values.get("code", ""))] += 1

    def _started(self, event: Event) -> None:
        self._lags.start(event.values.get("world_size"))
        self._safe = event.time
        if "began" in event.values:
            # Our own worker has a watchkeeper, and its log tells what that found.
            self._keeper = None

    def _compared(self, event: Event) -> None:
        """The ranks were compared with each other."""
        self._lags.take(event)
        newest = self._lags.newest
        if newest is not None and math.isfinite(newest.skew):
            self.curves.skew.take(event.step, newest.skew)

    def _evaluated(self, event: Event) -> None:
        loss = _number(event.values.get("loss"))
        if loss is not None and event.values.get("split", "validation") != "test":
            self.curves.evaluation.take(event.step, loss)

    def _stepped(self, event: Event) -> None:
        values = event.values
        self.steps += max(1, int(values.get("steps") or 1))
        self.highest = max(self.highest, event.step)
        first = event.step - max(1, int(values.get("steps") or 1))
        self._lowest = first if self._lowest is None else min(self._lowest, first)
        self._safe = event.time if self._safe is None else self._safe
        curves = self.curves
        for name, series in (
            ("loss", curves.loss),
            ("grad_norm", curves.grad_norm),
            ("learning_rate", curves.learning_rate),
        ):
            value = _number(values.get(name))
            if value is not None:
                series.take(event.step, value)
        seconds = _number(values.get("seconds"))
        if seconds is not None and math.isfinite(seconds) and seconds > 0:
            curves.step_seconds.take(event.step, seconds)
        parts = values.get("parts")
        for name, value in parts.items() if isinstance(parts, dict) else ():
            known = _number(value)
            if known is not None and (name in curves.parts or len(curves.parts) < MOST_PARTS):
                curves.parts.setdefault(name, Series()).take(event.step, known)

    def _saved(self, event: Event) -> None:
        seconds = _number(event.values.get("seconds"))
        taken = seconds if seconds is not None and math.isfinite(seconds) else 0.0
        if seconds is not None:
            self.curves.save_seconds.take(event.step, taken)
        if self._safe is not None:
            self.curves.checkpoint_age.take(event.step, max(0.0, event.time - taken - self._safe))
        self._safe = event.time

    def _stretch(self, bucket: Bucket, begin: float, end: float) -> None:
        self.stretches.take(Stretch(bucket, begin, end, self._attempt))

    @property
    def new_steps(self) -> int:
        """Steps that were done, each counted once."""
        return self.highest - (self._lowest or 0)

    def unsaved(self) -> float | None:
        """Seconds of work since the newest save, or the newest start, at the newest event."""
        if self._safe is None or self.last_time is None:
            return None
        return max(0.0, self.last_time - self._safe)

    def goodput(self) -> Goodput:
        """Where the time went."""
        return self._account.result()

    def snapshot(self) -> Snapshot:
        """The numbers at the newest step."""
        return self.metrics.snapshot()

    def outlook(self) -> Outlook | None:
        """When it will be done."""
        return outlook(self.snapshot(), self.goodput(), self.new_steps)

    def lag(self) -> RankLag | None:
        """How the ranks stand to each other."""
        return self._lags.now()

    def restarts(self) -> tuple[Started, ...]:
        """The starts that are kept, the oldest first."""
        return tuple(self.starts.kept)


def _number(value: object) -> float | None:
    """The value where it is a number, NaN and infinities included."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if good and isinstance(value, (int, float)) else None
