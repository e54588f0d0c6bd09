# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Saves that take longer than planned."""

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Expectations, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import Recent, finite
from seatrial.monitoring.event_log import Event, EventKind

PLANNED = 2.0
"""Times the plan's time of a save."""
OWN = 3.0
"""Times the median of the run's own saves, where there is no plan."""
OWN_SAVES = 3
"""Saves that tell what is usual."""
LEAST = 2.0
"""Seconds more than usual below which nothing is said."""
PLANNED_LEAST = 10.0
"""Seconds more than planned below which nothing is said."""
IN_A_ROW = 2

RULE = AnomalyRule(
    AnomalyCode.SLOW_SAVE,
    "Slow save",
    Severity.WARNING,
    f"A save takes more than {PLANNED:.0f} times what the plan says, and {PLANNED_LEAST:.0f} s "
    f"more; without a plan, more than {OWN:.0f} times the median of the run's own saves "
    f"({OWN_SAVES} at least), and {LEAST:.0f} s more.",
    f"{IN_A_ROW} saves in a row.",
    "The plan's time is the published bandwidth of the storage, which others share: twice as long "
    "is still within what one sees. One slow save is a neighbour's burst; two, an interval apart, "
    "are a state. The plan does not count what a save takes whatever its size, to agree and to "
    f"open files: seconds. Below {LEAST:.0f} s nothing is lost that is worth a word.",
    "Look at the storage: its throughput limit and burst credits, other runs that write to it, a "
    "node whose network is slow. Save less often or asynchronously until it is mended "
    "(checkpoints.every_steps, checkpoints.asynchronous).",
    calm=1,
)


class SlowSave:
    """Compares saves with the plan, or with those before."""

    rule = RULE
    """What it watches for."""

    def __init__(self, expected: Expectations) -> None:
        """Begin before the first save."""
        self._planned = expected.save_seconds
        self._own = Recent(32)
        self._slow: list[int] = []

    def observe(self, event: Event) -> Seen:
        """Look at a save."""
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
        said = f"The save of step {event.step:,} took {seconds:.3g} s; {usual:.3g} s are {whose}."
        return (Symptom(said, f"{seconds:.3g} s", self._slow[0]),)

    def _limit(self) -> tuple[float, float | None]:
        """What a save should take, and from where on it is slow, where that is known."""
        if self._planned is not None:
            return self._planned, max(PLANNED * self._planned, self._planned + PLANNED_LEAST)
        if len(self._own) < OWN_SAVES:
            return 0.0, None
        usual = self._own.median()
        return usual, max(OWN * usual, usual + LEAST)
