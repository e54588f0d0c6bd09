# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that is shown about a run, from its events in one pass.

Memory is bounded, whatever the length of the run and the number of ranks.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from seatrial.monitoring.anomalies.detector import AnomalyPhase, Notice
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.monitoring.eta import Outlook, outlook
from seatrial.monitoring.event_log import Event, EventKind, sanitize_event
from seatrial.monitoring.goodput import Account, Bucket, Goodput
from seatrial.monitoring.gpus import GpuState, gpu_state
from seatrial.monitoring.metrics import Metrics, Snapshot
from seatrial.monitoring.rank_times import RankLag, RankLags
from seatrial.monitoring.series import Series
from seatrial.monitoring.timeline import Started, Starts, Stretch, Stretches
from seatrial.monitoring.utilisation import MfuBasis

MOST_PARTS = 16
"""Parts of a step that are kept separately; an engine may print any number of timers."""
MOST_FINDINGS = 500
"""The newest findings that are kept; all are counted."""
LAST_EVENTS = 50
"""Notable events that are kept."""
NOTABLE = (
    *(EventKind.PREFLIGHT, EventKind.START, EventKind.RESTART, EventKind.SAVE, EventKind.SAVED),
    *(EventKind.EVALUATION, EventKind.FINDING, EventKind.EXIT),
)
"""Events that are listed individually; steps are shown as curves."""


@dataclass(slots=True)
class Curves:
    """The values that are plotted against steps."""

    loss: Series = field(default_factory=Series)
    grad_norm: Series = field(default_factory=Series)
    learning_rate: Series = field(default_factory=Series)
    step_seconds: Series = field(default_factory=Series)
    evaluation: Series = field(default_factory=Series)
    """Loss of each evaluation on the validation split."""
    gpu_power: Series = field(default_factory=Series)
    """Watts of the median GPU."""
    gpu_clock: Series = field(default_factory=Series)
    """Clock of the slowest GPU, MHz."""
    gpu_utilisation: Series = field(default_factory=Series)
    """Share of the time in which the median GPU ran a kernel."""
    skew: Series = field(default_factory=Series)
    """How far the slowest rank was above the median rank, as a share of the median."""
    checkpoint_age: Series = field(default_factory=Series)
    """Seconds of unsaved work just before each save: since the previous save or the start."""
    save_seconds: Series = field(default_factory=Series)
    """Seconds that each save paused training."""
    parts: dict[str, Series] = field(default_factory=dict)
    """Seconds of each part of a step."""


class RunView:
    """Aggregates a run's attempts and events into everything that is shown.

    A log of Seatrial's worker contains the findings of the running job. For any other log, the
    same detectors run here.
    """

    def __init__(self, basis: MfuBasis | None = None) -> None:
        """Start before the first attempt. `basis` is the plan's, if there is one."""
        self.metrics = Metrics(basis)
        self.curves = Curves()
        self.starts = Starts()
        self.stretches = Stretches()
        self.findings: deque[Event] = deque(maxlen=MOST_FINDINGS)
        self.found: Counter[str] = Counter()
        self.events: deque[Event] = deque(maxlen=LAST_EVENTS)
        self.notable = 0
        self.gpus: GpuState | None = None
        """The newest state of the GPUs; None if the log has none."""
        self.first_time: float | None = None
        self.last_time: float | None = None
        self.steps = 0
        self.highest = 0
        self._lowest: int | None = None
        self._account = Account(self._stretch)
        self._lags = RankLags()
        self._attempt = 0
        self._safe: float | None = None
        self._monitor: AnomalyMonitor | None = AnomalyMonitor()
        self._handlers: dict[EventKind, Callable[[Event], None]] = {
            EventKind.START: self._started,
            EventKind.STEP: self._stepped,
            EventKind.RANKS: self._compared,
            EventKind.GPUS: self._read_gpus,
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
        self._account.end(ended)
        self.starts.end(reason)

    def take(self, raw: Event) -> None:
        """Add one event; drop its implausible values."""
        event = sanitize_event(raw)
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
        if self._monitor is not None:
            self._announce(self._monitor.observe(event), event.time)

    def pass_time(self, seconds: float) -> None:
        """Handle the time since the newest event, in seconds."""
        if self._monitor is not None and self.last_time is not None:
            now = self.last_time + seconds
            self._announce(self._monitor.pass_time(now), now)

    def _announce(self, notices: Iterable[Notice], when: float) -> None:
        """Record the notices of the detectors."""
        for notice in notices:
            found = notice.event(when)
            self._noticed(found)
            self._keep(found)

    def _keep(self, event: Event) -> None:
        self.notable += 1
        self.events.append(event)

    def _noticed(self, event: Event) -> None:
        """Record a finding. Its end is listed but not counted again."""
        if event.values.get("phase") != AnomalyPhase.ENDED:
            self.findings.append(event)
            self.found[str(event.values.get("code", ""))] += 1

    def _started(self, event: Event) -> None:
        self._lags.start(event.values.get("world_size"))
        self._safe = event.time
        if "began" in event.values:
            # Seatrial's worker runs the detectors itself, and its log contains their findings.
            self._monitor = None

    def _compared(self, event: Event) -> None:
        """Record a comparison of the ranks."""
        self._lags.take(event)
        newest = self._lags.newest
        if newest is not None and math.isfinite(newest.skew):
            self.curves.skew.take(event.step, newest.skew)

    def _read_gpus(self, event: Event) -> None:
        """Record the state of the GPUs."""
        self.gpus = gpu_state(event)
        figures = self.gpus.figures if self.gpus is not None else {}
        for series, name, part in (
            (self.curves.gpu_power, "power", "median"),
            (self.curves.gpu_clock, "clock", "least"),
            (self.curves.gpu_utilisation, "utilisation", "median"),
        ):
            figure = figures.get(name)
            value = math.nan if figure is None else float(getattr(figure, part))
            if math.isfinite(value):
                series.take(event.step, value)

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
        """Number of distinct steps."""
        return self.highest - (self._lowest or 0)

    def unsaved(self) -> float | None:
        """Return the seconds between the newest save or start and the newest event."""
        if self._safe is None or self.last_time is None:
            return None
        return max(0.0, self.last_time - self._safe)

    def goodput(self) -> Goodput:
        return self._account.result()

    def snapshot(self) -> Snapshot:
        """Return the metrics at the newest step."""
        return self.metrics.snapshot()

    def outlook(self) -> Outlook | None:
        """Estimate when the run will finish."""
        return outlook(self.snapshot(), self.goodput(), self.new_steps)

    def lag(self) -> RankLag | None:
        """Return the recent lags of the ranks."""
        return self._lags.now()

    def restarts(self) -> tuple[Started, ...]:
        """Return the starts that are kept, oldest first."""
        return tuple(self.starts.kept)


def _number(value: object) -> float | None:
    """Return the value if it is a number, including NaN and infinities."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if good and isinstance(value, (int, float)) else None
