# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Steps that take longer than they did."""

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import Recent, finite, percent
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import rank_figure

SLOWER = 1.25
"""Times the usual time of a step."""
STEPS = 20
"""Steps that are compared with what was usual before them."""
USUAL = 200
"""Steps that make up what was usual."""
WARM_UP = 10
"""Steps after a start that are not looked at: allocators, caches and autotuning settle."""

RULE = AnomalyRule(
    AnomalyCode.THROUGHPUT_DROP,
    "Throughput drop",
    Severity.WARNING,
    f"The median time of {STEPS} steps is more than {percent(SLOWER - 1)} above the median of the "
    f"up to {USUAL} steps before them, and three quarters of them are slower than three quarters "
    "of those. In a rehearsal on a CPU, what the slowest rank computes is taken in place of the "
    "step: without waiting for data, for other ranks, and for a core that ran something else; "
    "while ranks wait for a core more than nine tenths of the time, nothing is judged.",
    f"{STEPS} steps, after {WARM_UP} steps of warm-up and {STEPS} that show what is usual.",
    "A single slow step, or a few, is a save beside the training, a garbage collection or a busy "
    "switch, and costs nothing worth a page; twenty are a new state of things. A quarter more time "
    "is two days of a run of eight. That the quartiles are apart keeps a run quiet whose steps "
    "vary by nature.",
    "See whether one rank is slow (a straggler), the data (their share of the step) or all: then "
    "look for clocks that were lowered for heat or power, for other jobs on the fabric, and for "
    "another process on the nodes.",
)


class ThroughputDrop:
    """Compares the newest steps with those before."""

    rule = RULE
    """What it watches for."""

    def __init__(self) -> None:
        """Begin before the first step."""
        self._left = WARM_UP
        self._new = Recent(STEPS)
        self._usual = Recent(USUAL)
        self._waiting: tuple[int, float] | None = None
        self._since: int | None = None

    def observe(self, event: Event) -> Seen:
        """Look at a step, once it is known what its ranks say of it."""
        if event.kind is EventKind.STEP:
            before, self._waiting = self._waiting, None
            seconds = finite(event.values.get("seconds"))
            if seconds is not None and seconds > 0:
                self._waiting = (event.step, seconds)
            return self._judge(*before) if before else None
        if event.kind is EventKind.RANKS and self._waiting is not None:
            step, seconds = self._waiting
            pace = rank_figure(event.values.get("pace"))
            self._waiting = None
            if pace is None and "starved" in event.values:
                # A host so busy with other things that nothing can be told.
                return None
            return self._judge(step, seconds if pace is None else pace.most)
        return None

    def _judge(self, step: int, seconds: float) -> Seen:
        if self._left > 0:
            self._left -= 1
            return None
        oldest = self._new.add(seconds)
        # What leaves the newest steps becomes part of what is usual, unless they are slow.
        if oldest is not None and self._since is None:
            self._usual.add(oldest)
        if len(self._usual) < STEPS or not self._new.full:
            return None
        usual, new = self._usual.median(), self._new.median()
        if new <= SLOWER * usual or self._new.quartiles()[0] <= self._usual.quartiles()[1]:
            self._since = None
            return ()
        self._since = self._since or max(1, step - STEPS + 1)
        less = f"{percent(1 - usual / new)} less throughput"
        said = f"Steps take {new:.3g} s and took {usual:.3g} s: {less}."
        return (Symptom(said, f"{new:.3g} s", self._since),)
