# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Steps that take longer than before."""

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import Recent, finite, percent
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import rank_figure

SLOWER = 1.25
"""Multiple of the usual step time."""
STEPS = 20
"""Steps that are compared with the baseline."""
USUAL = 200
"""Steps of the baseline."""
WARM_UP = 10
"""Steps after a start that are ignored, while allocators, caches and autotuning settle."""

RULE = AnomalyRule(
    AnomalyCode.THROUGHPUT_DROP,
    "Throughput drop",
    Severity.WARNING,
    f"The median time of the last {STEPS} steps is more than {percent(SLOWER - 1)} above the "
    f"baseline, the median of up to {USUAL} earlier steps. In addition, the lower quartile of the "
    "last steps is above the upper quartile of the earlier steps. A change of the batch size "
    "starts a new baseline. In a rehearsal on a CPU, the "
    "check uses the compute time of the slowest rank instead of the step time, without the time "
    "spent waiting for data, for other ranks or for a core. The check is off while ranks wait for "
    "a core more than 90 % of the time.",
    f"{STEPS} steps, after {WARM_UP} warm-up steps and {STEPS} baseline steps.",
    "A background save, garbage collection or a busy switch can cause a few slow steps, which cost "
    "little; twenty slow steps in a row are a lasting change. A step time that is 25 % longer adds "
    "two days to an eight-day run. The quartile condition avoids false alarms in runs whose step "
    "times vary widely.",
    "Find out whether one rank is slow (a straggler), data loading is slow (see its share of the "
    "step), or all ranks are slow. If all are slow, check for GPU clocks throttled by heat or "
    "power, other jobs on the fabric, and other processes on the nodes.",
)


class ThroughputDrop:
    """Compares the newest steps with the steps before."""

    rule = RULE

    def __init__(self) -> None:
        self._left = WARM_UP
        self._new = Recent(STEPS)
        self._usual = Recent(USUAL)
        self._waiting: tuple[int, float] | None = None
        self._since: int | None = None
        self._batch: object = None

    def observe(self, event: Event) -> Seen:
        """Check a step, once the report from its ranks has arrived."""
        if event.kind is EventKind.STEP:
            before, self._waiting = self._waiting, None
            if self._grew(event.values.get("global_batch_size")):
                before = None
            seconds = finite(event.values.get("seconds"))
            if seconds is not None and seconds > 0:
                self._waiting = (event.step, seconds)
            return self._judge(*before) if before else None
        if event.kind is EventKind.RANKS and self._waiting is not None:
            step, seconds = self._waiting
            pace = rank_figure(event.values.get("pace"))
            self._waiting = None
            if pace is None and "starved" in event.values:
                # The host is too busy with other processes for a reliable result.
                return None
            return self._judge(step, seconds if pace is None else pace.most)
        return None

    def _grew(self, batch: object) -> bool:
        """Start over if the batch size changes: steps with more sequences take longer."""
        before, self._batch = self._batch, batch
        if before is None or batch is None or before == batch:
            return False
        self._new, self._usual, self._since = Recent(STEPS), Recent(USUAL), None
        return True

    def _judge(self, step: int, seconds: float) -> Seen:
        if self._left > 0:
            self._left -= 1
            return None
        oldest = self._new.add(seconds)
        # Steps that leave the window join the baseline, unless the run is slow.
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
        message = f"Steps take {new:.3g} s, up from {usual:.3g} s: {less}."
        return (Symptom(message, f"{new:.3g} s", self._since),)
