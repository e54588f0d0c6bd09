# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A gradient norm that explodes."""

from dataclasses import replace

from seatrial.findings import Severity
from seatrial.monitoring.anomalies.codes import AnomalyCode
from seatrial.monitoring.anomalies.detector import Rule, Seen, Symptom
from seatrial.monitoring.anomalies.expectations import Expectations
from seatrial.monitoring.anomalies.robust import finite
from seatrial.monitoring.anomalies.surge import LOCAL, WARM_UP, Limits, Surge
from seatrial.monitoring.event_log import Event, EventKind

LIMITS = Limits(deviations=6.0, share=9.0, at_once=99.0)

RULE = Rule(
    AnomalyCode.GRADIENT_EXPLOSION,
    "Gradient explosion",
    Severity.WARNING,
    f"The gradient norm is more than {1 + LIMITS.share:.0f} times the median of the {LOCAL} steps "
    f"before, {LIMITS.deviations:.0f} standard deviations above it, and above the norm that "
    "gradients are clipped at.",
    f"{LIMITS.of_three} of 3 steps; {1 + LIMITS.at_once:.0f} times as much, 1 step. Judged from "
    f"step {LOCAL + WARM_UP} after a start.",
    "Gradient norms have long tails: two or three times the usual is daily business that clipping "
    "takes care of, and below the norm of clipping a step does what it always did. Ten is also "
    "what Megatron takes for a spike (its rerun machine). Before BLOOM's loss went up, the norm "
    "rose from 0.24 to 960 within 5 steps (bigscience, chronicles of tr11-176B).",
    "Look at the loss: the norm rises some steps before it. Clipping (training.clip_grad_norm) "
    "limits the harm. If the loss follows, go back to the checkpoint before, and skip the data or "
    "lower the learning rate.",
)


class GradientExplosion:
    """Watches for explosions."""

    rule = RULE
    """What it watches for."""

    def __init__(self, expected: Expectations) -> None:
        """Begin before the first step."""
        self._surge = Surge(replace(LIMITS, least=expected.clip_grad_norm))

    def observe(self, event: Event) -> Seen:
        """Look at a step; one that the loss scale has skipped has no norm worth looking at."""
        if event.kind is not EventKind.STEP or event.values.get("skipped"):
            return None
        norm = finite(event.values.get("grad_norm"))
        if norm is None or norm < 0:
            return None
        jump = self._surge.take(event.step, norm)
        if jump is None:
            return ()
        norms = f"{jump.value:.4g} in step {event.step:,} and was {jump.usual:.4g}"
        said = f"The gradient norm is {norms}."
        return (Symptom(said, f"{jump.value:.4g}", jump.since),)
