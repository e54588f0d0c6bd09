# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Saves that take longer than planned."""

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Expectations, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import Recent, finite
from seatrial.monitoring.event_log import Event, EventKind

PLANNED = 2.0
"""Multiple of the planned save time."""
OWN = 3.0
"""Multiple of the median of the run's own saves, if there is no plan."""
OWN_SAVES = 3
"""Saves needed for a baseline."""
LEAST = 2.0
"""Seconds above the median below which a save is not reported."""
PLANNED_LEAST = 10.0
"""Seconds above the plan below which a save is not reported."""
IN_A_ROW = 2

RULE = AnomalyRule(
    AnomalyCode.SLOW_SAVE,
    "Slow save",
    Severity.WARNING,
    f"A save takes more than {PLANNED:.0f} times the planned time, and exceeds it by more than "
    f"{PLANNED_LEAST:.0f} s. Without a plan, a save takes more than {OWN:.0f} times the median of "
    f"at least {OWN_SAVES} earlier saves, and exceeds it by more than {LEAST:.0f} s.",
    f"{IN_A_ROW} consecutive saves.",
    "The planned time is based on the published bandwidth of the storage, which is shared, so "
    "twice the planned time is still normal. One slow save may be caused by a burst from another "
    "workload; two consecutive slow saves indicate a persistent problem. The plan does not include "
    "the fixed costs of a save, such as coordination and opening files, which take a few seconds. "
    f"Differences below {LEAST:.0f} s do not matter.",
    "Check the storage: its throughput limit and burst credits, other runs that write to it, and "
    "nodes with a slow network. Until the storage is fixed, save less often or asynchronously "
    "(checkpoints.every_steps, checkpoints.asynchronous).",
    calm=1,
)


class SlowSave:
    """Compares saves with the plan, or with earlier saves."""

    rule = RULE

    def __init__(self, expected: Expectations) -> None:
        self._planned = expected.save_seconds
        self._own = Recent(32)
        self._slow: list[int] = []

    def observe(self, event: Event) -> Seen:
        seconds = finite(event.values.get("seconds")) if event.kind is EventKind.SAVE else None
        if seconds is None:
            return None
        usual, limit = self._limit()
        if limit is None or seconds <= limit:
            self._own.add(seconds)
            self._slow = []
            return ()
        self._slow = [*self._slow, event.step][:IN_A_ROW]
        if len(self._slow) < IN_A_ROW:
            return ()
        whose = "planned" if self._planned is not None else "usual"
        message = f"The save at step {event.step:,} took {seconds:.3g} s; {usual:.3g} s is {whose}."
        return (Symptom(message, f"{seconds:.3g} s", self._slow[0]),)

    def _limit(self) -> tuple[float, float | None]:
        """Return the normal duration of a save, and the limit if it is known."""
        if self._planned is not None:
            return self._planned, max(PLANNED * self._planned, self._planned + PLANNED_LEAST)
        if len(self._own) < OWN_SAVES:
            return 0.0, None
        usual = self._own.median()
        return usual, max(OWN * usual, usual + LEAST)
