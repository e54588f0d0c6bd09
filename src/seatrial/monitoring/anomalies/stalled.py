# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run in which nothing happens."""

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Expectations, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import Recent, finite
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.hang_timeouts import (
    SAVE_FLOOR,
    SAVE_REPORT_FACTOR,
    STEP_FACTOR,
    STEP_FLOOR,
)
from seatrial.monitoring.rank_times import KEPT

RECENT = 64
"""Steps that tell how long one takes."""
UNKNOWN_DUE = 120.0
"""Seconds that any silence may last while nobody knows when saves and evaluations are due."""

RULE = AnomalyRule(
    AnomalyCode.STALLED,
    "Stalled",
    Severity.ERROR,
    f"No step for more than {STEP_FACTOR:.0f} times the median of recent steps, and at least "
    f"{STEP_FLOOR:.0f} s; while a save or an evaluation may be going on, {SAVE_REPORT_FACTOR:.0f} "
    f"times the longest so far; before the first step, save or evaluation and after the last step, "
    f"{SAVE_FLOOR:.0f} s (the first save: {SAVE_REPORT_FACTOR:.0f} times what the plan says, where "
    f"that is longer); in a log of which it is not known when saves and evaluations are due, "
    f"at least {UNKNOWN_DUE:.0f} s.",
    "No step at all: it is told as soon as the time is over, and the worker looks every second. "
    "The worker names the ranks that do not answer, which takes it 5 to 15 s more.",
    "Five times the usual is what NVIDIA's resiliency extension takes for a hang; below ten "
    "seconds a garbage collection or a slow disk looks the same. Saves ten times slower than "
    "usual have been seen on shared file systems without anything being broken.",
    "See which rank does not answer, and what it does: seatrial diagnose, py-spy dump on its "
    "process, the kernel's log of its node. NCCL's watchdog ends the processes after 10 minutes; "
    "stopping them now saves that time.",
    calm=1,
)


class Stalled:
    """Knows how long silence may last."""

    rule = RULE
    """What it watches for."""

    def __init__(self, expected: Expectations) -> None:
        """Begin before the first event."""
        self._seconds = Recent(RECENT)
        self._every = {
            EventKind.SAVE: expected.save_every_steps,
            EventKind.EVALUATION: expected.evaluate_every_steps,
        }
        self._longest: dict[EventKind, float | None] = {
            EventKind.SAVE: None,
            EventKind.EVALUATION: None,
        }
        # A plan knows the storage's bandwidth, not what else the first save takes.
        first_save = max(SAVE_FLOOR, SAVE_REPORT_FACTOR * (expected.save_seconds or 0.0))
        self._first = {EventKind.SAVE: first_save, EventKind.EVALUATION: SAVE_FLOOR}
        self._met: dict[EventKind, int] = {}
        self._last: Event | None = None
        self._running = False
        self._total: float | None = None

    def observe(self, event: Event) -> Seen:
        """Something has happened."""
        self._last = event
        seconds = finite(event.values.get("seconds"))
        match event.kind:
            case EventKind.START:
                self._running = True
                self._total = finite(event.values.get("total_steps"))
            case EventKind.EXIT:
                self._running = False
            case EventKind.STEP:
                self._running = True
                if seconds is not None and seconds > 0:
                    steps = int(finite(event.values.get("steps")) or 1)
                    # A log that tells of every tenth step is silent for ten.
                    self._seconds.add(seconds * max(1, steps))
            case EventKind.SAVE | EventKind.EVALUATION:
                self._paused(event.kind, event.step, seconds)
            case _:
                pass
        return ()

    def pass_time(self, now: float, missing: tuple[int, ...] = ()) -> Seen:
        """Nothing has happened until now, and these ranks do not answer."""
        if self._last is None or not self._running:
            return None
        silent = now - self._last.time
        if silent <= self.patience():
            return None
        after = f"step {self._last.step:,}" if len(self._seconds) else "the start"
        said = f"Nothing has happened for {silent:.0f} s, since {after}{_named(missing)}."
        return (Symptom(said, f"{silent:.0f} s", self._last.step + 1),)

    def patience(self) -> float:
        """Seconds of silence that are nothing strange now."""
        if not len(self._seconds) or self._last is None:
            return SAVE_FLOOR
        usual = max(STEP_FLOOR, STEP_FACTOR * self._seconds.median())
        pauses = [self._pause(kind) for kind in self._every if self._due(kind)]
        if self._total is not None and self._last.step >= self._total:
            pauses.append(SAVE_FLOOR)
        if None in self._every.values():
            pauses.append(UNKNOWN_DUE)
        return max([usual, *pauses])

    def _pause(self, kind: EventKind) -> float:
        """Seconds that a save or an evaluation may take."""
        longest = self._longest[kind]
        return self._first[kind] if longest is None else SAVE_REPORT_FACTOR * longest

    def _due(self, kind: EventKind) -> bool:
        """Whether a save or an evaluation may follow the newest event."""
        last = self._last
        if last is None or last.kind not in (EventKind.STEP, EventKind.RANKS, EventKind.SAVE):
            return False
        every = self._every[kind]
        return bool(every) and last.step > 0 and last.step % (every or 1) == 0

    def _paused(self, kind: EventKind, step: int, seconds: float | None) -> None:
        """Learn from a save or an evaluation how long they take, and how often they are."""
        if seconds is not None:
            self._longest[kind] = max(self._longest[kind] or 0.0, seconds)
        before = self._met.get(kind)
        if self._every[kind] is None and before is not None and step > before:
            self._every[kind] = step - before
        self._met[kind] = step


def _named(ranks: tuple[int, ...]) -> str:
    """The ranks that do not answer, in words."""
    if not ranks:
        return ""
    names = ", ".join(map(str, ranks[:KEPT])) + (", ..." if len(ranks) > KEPT else "")
    return (
        f", and rank {names} does not answer"
        if len(ranks) == 1
        else f", and ranks {names} do not answer"
    )
