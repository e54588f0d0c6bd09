# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A loss that jumps up."""

from seatrial.findings import Severity
from seatrial.monitoring.anomalies.codes import AnomalyCode
from seatrial.monitoring.anomalies.detector import Rule, Seen, Symptom
from seatrial.monitoring.anomalies.robust import finite, percent
from seatrial.monitoring.anomalies.surge import LOCAL, WARM_UP, WINDOW, Limits, Surge
from seatrial.monitoring.event_log import Event, EventKind

LIMITS = Limits(deviations=6.0, share=0.1, at_once=1.0, more=0.1)

RULE = Rule(
    AnomalyCode.LOSS_SPIKE,
    "Loss spike",
    Severity.WARNING,
    f"The loss is above the median of the {LOCAL} steps before by more than "
    f"{LIMITS.deviations:.0f} standard deviations (by the median absolute deviation of {WINDOW} "
    f"steps), by {percent(LIMITS.share)} and by {LIMITS.more} nat.",
    f"{LIMITS.of_three} of 3 steps; a loss that doubles, 1 step. Judged from step "
    f"{LOCAL + WARM_UP} after a start.",
    "OLMo-core counts a step as a spike at 6 standard deviations over 128 steps "
    "(StabilityMonitor). One strange batch does that now and then and harms nothing, so a second "
    f"step is asked for, unless the loss doubles. Below {percent(LIMITS.share)}, or {LIMITS.more} "
    "nat (a tenth of the perplexity), nobody would stop a run, however quiet its loss was.",
    "Watch whether it comes back by itself within some hundred steps. If it does not, go back to "
    "the checkpoint before the first of these steps, and skip their data or lower the learning "
    "rate.",
)


class LossSpike:
    """Watches for spikes."""

    rule = RULE
    """What it watches for."""

    def __init__(self) -> None:
        """Begin before the first step."""
        self._surge = Surge(LIMITS)

    def observe(self, event: Event) -> Seen:
        """Look at a step; one whose loss is no number is another's business."""
        loss = finite(event.values.get("loss")) if event.kind is EventKind.STEP else None
        if loss is None:
            return None
        jump = self._surge.take(event.step, loss)
        if jump is None:
            return ()
        said = f"The loss is {jump.value:.4g} in step {event.step:,} and was {jump.usual:.4g}."
        return (Symptom(said, f"{jump.value:.4g}", jump.since),)
