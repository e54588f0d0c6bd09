# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run without progress."""

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
"""Steps whose median is the usual time."""
UNKNOWN_DUE = 120.0
"""Minimum timeout in seconds while the save and evaluation intervals are unknown."""

RULE = AnomalyRule(
    AnomalyCode.STALLED,
    "Stalled",
    Severity.ERROR,
    f"No step finishes for {STEP_FACTOR:.0f} times the median step time, and at least "
    f"{STEP_FLOOR:.0f} s. While a save or an evaluation may be in progress, the limit is "
    f"{SAVE_REPORT_FACTOR:.0f} times the longest previous one. Before the first step, save or "
    f"evaluation, and after the last step, it is {SAVE_FLOOR:.0f} s (for the first save, "
    f"{SAVE_REPORT_FACTOR:.0f} times the planned time if that is longer). If the log does not show "
    f"when saves and evaluations are due, the limit is at least {UNKNOWN_DUE:.0f} s.",
    "A stall is reported as soon as the limit is exceeded; the worker checks every second. The "
    "worker also names the ranks that do not respond, which takes another 5 to 15 s.",
    "NVIDIA's resiliency extension treats five times the usual step time as a hang. Below ten "
    "seconds, a stall cannot be distinguished from garbage collection or a slow disk. On healthy "
    "shared file systems, saves ten times slower than usual have been observed.",
    "Find out which rank does not respond and what it is doing: seatrial diagnose, py-spy dump on "
    "its process, the kernel log of its node. NCCL's watchdog kills the processes after 10 "
    "minutes; stop them now to save that time.",
    calm=1,
)


class Stalled:
    """Tracks how long the run may go without an event."""

    rule = RULE

    def __init__(self, expected: Expectations) -> None:
        self._seconds = Recent(RECENT)
        self._every = {
            EventKind.SAVE: expected.save_every_steps,
            EventKind.EVALUATION: expected.evaluate_every_steps,
        }
        self._longest: dict[EventKind, float | None] = {
            EventKind.SAVE: None,
            EventKind.EVALUATION: None,
        }
        # The plan includes the storage's bandwidth, but not the other costs of the first save.
        first_save = max(SAVE_FLOOR, SAVE_REPORT_FACTOR * (expected.save_seconds or 0.0))
        self._first = {EventKind.SAVE: first_save, EventKind.EVALUATION: SAVE_FLOOR}
        self._met: dict[EventKind, int] = {}
        self._last: Event | None = None
        self._running = False
        self._total: float | None = None
        self._last_batch: object = None
        self._grows = False

    def observe(self, event: Event) -> Seen:
        """Record an event."""
        self._last = event
        seconds = finite(event.values.get("seconds"))
        match event.kind:
            case EventKind.START:
                self._running = True
                self._total = finite(event.values.get("total_steps"))
                self._last_batch = event.values.get("global_batch_size")
            case EventKind.EXIT:
                self._running = False
            case EventKind.STEP:
                self._running = True
                batch = event.values.get("global_batch_size")
                self._grows = None not in (batch, self._last_batch) and batch != self._last_batch
                if seconds is not None and seconds > 0:
                    steps = int(finite(event.values.get("steps")) or 1)
                    # A log with every tenth step has no events for ten steps.
                    self._seconds.add(seconds * max(1, steps))
            case EventKind.SAVE | EventKind.EVALUATION:
                self._paused(event.kind, event.step, seconds)
            case _:
                pass
        return ()

    def pass_time(self, now: float, missing: tuple[int, ...] = ()) -> Seen:
        """Check for a stall. `missing` are ranks that do not respond."""
        if self._last is None or not self._running:
            return None
        silent = now - self._last.time
        if silent <= self.patience():
            return None
        after = f"step {self._last.step:,}" if len(self._seconds) else "the start"
        message = f"No progress for {silent:.0f} s, since {after}{_named(missing)}."
        return (Symptom(message, f"{silent:.0f} s", self._last.step + 1),)

    def patience(self) -> float:
        """Return the seconds without events that are normal now."""
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
        """Return the timeout of a save or an evaluation."""
        longest = self._longest[kind]
        return self._first[kind] if longest is None else SAVE_REPORT_FACTOR * longest

    def _due(self, kind: EventKind) -> bool:
        """True if a save or an evaluation may follow the newest event."""
        last = self._last
        if last is None or last.kind not in (EventKind.STEP, EventKind.RANKS, EventKind.SAVE):
            return False
        every = self._every[kind]
        # The engine also saves before the batch size grows.
        if kind is EventKind.SAVE and self._grows:
            return True
        return bool(every) and last.step > 0 and last.step % (every or 1) == 0

    def _paused(self, kind: EventKind, step: int, seconds: float | None) -> None:
        """Learn the duration and the interval of saves or evaluations."""
        if seconds is not None:
            self._longest[kind] = max(self._longest[kind] or 0.0, seconds)
        before = self._met.get(kind)
        if self._every[kind] is None and before is not None and step > before:
            self._every[kind] = step - before
        self._met[kind] = step


def _named(ranks: tuple[int, ...]) -> str:
    """Format the ranks that do not respond."""
    if not ranks:
        return ""
    names = ", ".join(map(str, ranks[:KEPT])) + (", ..." if len(ranks) > KEPT else "")
    return (
        f"; rank {names} does not respond" if len(ranks) == 1 else f"; ranks {names} do not respond"
    )
