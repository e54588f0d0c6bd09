# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spikes in the loss and the gradient norm.

The baseline is the median of the newest steps, so a falling curve is not compared with its past.
Deviations from it are measured over more steps. Steps with a spike are excluded from both;
otherwise a spike would soon become the baseline.
"""

from collections import deque
from dataclasses import dataclass, replace

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Expectations, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import Recent, finite, percent
from seatrial.monitoring.event_log import Event, EventKind

LOCAL = 16
"""Steps whose median is the baseline."""
WINDOW = 128
"""Steps over which deviations are measured, as in OLMo-core's spike monitor."""
WARM_UP = 32
"""Steps after a start that are not checked: fewer deviations are not representative."""
RELEARN = 200
"""Steps after which a persistent level becomes the new baseline."""


@dataclass(frozen=True, slots=True)
class SpikeLimits:
    """Thresholds of a spike."""

    deviations: float
    """Standard deviations above the baseline."""
    share: float
    """And at least this share of the baseline above it."""
    at_once: float
    """This share of the baseline above it is enough in a single step."""
    more: float = 0.0
    """And at least this much above the baseline."""
    least: float = 0.0
    """And at least this value."""
    of_three: int = 2
    """Otherwise, how many of three consecutive steps must exceed the threshold."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A spike in progress."""

    value: float
    """The current value."""
    usual: float
    since: int
    """The first step above the threshold."""


class Surge:
    """Detects spikes in one curve."""

    def __init__(self, limits: SpikeLimits) -> None:
        self._limits = limits
        self._local = Recent(LOCAL)
        self._strays = Recent(WINDOW)
        self._above: deque[tuple[int, bool]] = deque(maxlen=3)
        self._jumped: Jump | None = None
        self._length = 0

    def take(self, step: int, value: float) -> Jump | None:
        """Add a step. Return the spike while the curve is up, otherwise None."""
        usual = self._local.median()
        if len(self._strays) < WARM_UP:
            self._learn(value, usual)
            return None
        far = value > max(self._limits.least, usual + self._distance(usual))
        self._above.append((step, far))
        if not far:
            self._learn(value, usual)
        once = far and value > usual * (1 + self._limits.at_once)
        if once or sum(above for _, above in self._above) >= self._limits.of_three:
            first = next(step for step, above in self._above if above)
            since = first if self._jumped is None else self._jumped.since
            self._jumped = Jump(value, usual, since)
            self._length += 1
            if self._length > RELEARN:
                self._forget()
            return self._jumped
        if not far:
            self._jumped, self._length = None, 0
        return None

    def _distance(self, usual: float) -> float:
        """Return the allowed distance above the baseline."""
        limits = self._limits
        deviations = limits.deviations * self._strays.spread()
        return max(deviations, limits.share * usual, limits.more)

    def _learn(self, value: float, usual: float) -> None:
        """Add a normal step to the baseline."""
        if self._local.full:
            self._strays.add(value - usual)
        self._local.add(value)

    def _forget(self) -> None:
        """Reset the baseline."""
        self._local.clear()
        self._strays.clear()
        self._above.clear()
        self._jumped, self._length = None, 0


LOSS = SpikeLimits(deviations=6.0, share=0.1, at_once=1.0, more=0.1)

LOSS_RULE = AnomalyRule(
    AnomalyCode.LOSS_SPIKE,
    "Loss spike",
    Severity.WARNING,
    f"The loss exceeds the median of the previous {LOCAL} steps by more than "
    f"{LOSS.deviations:.0f} standard deviations (estimated from the median absolute deviation over "
    f"{WINDOW} steps), by more than {percent(LOSS.share)}, and by more than {LOSS.more} nat.",
    f"{LOSS.of_three} of 3 consecutive steps, or 1 step if the loss doubles. The check is active "
    f"from step {LOCAL + WARM_UP} after a start.",
    "OLMo-core's StabilityMonitor counts a step as a spike at 6 standard deviations over 128 "
    "steps. A single unusual batch can exceed this threshold without harm, so a second step is "
    f"required unless the loss doubles. An increase below {percent(LOSS.share)} or {LOSS.more} nat "
    "(10 % of the perplexity) is no reason to stop a run, even if its loss was very smooth.",
    "Wait a few hundred steps to see whether the loss recovers. If it does not, roll back to the "
    "last checkpoint before the spike, and skip the data of the spike or lower the learning rate.",
)


class LossSpike:
    rule = LOSS_RULE

    def __init__(self) -> None:
        self._surge = Surge(LOSS)

    def observe(self, event: Event) -> Seen:
        """Check a step. Another detector handles NaN and infinities."""
        loss = finite(event.values.get("loss")) if event.kind is EventKind.STEP else None
        if loss is None:
            return None
        jump = self._surge.take(event.step, loss)
        if jump is None:
            return ()
        message = f"The loss is {jump.value:.4g} at step {event.step:,}, up from {jump.usual:.4g}."
        return (Symptom(message, f"{jump.value:.4g}", jump.since),)


NORM = SpikeLimits(deviations=6.0, share=9.0, at_once=99.0)

GRADIENT_RULE = AnomalyRule(
    AnomalyCode.GRADIENT_EXPLOSION,
    "Gradient explosion",
    Severity.WARNING,
    f"The gradient norm is more than {1 + NORM.share:.0f} times the median of the previous {LOCAL} "
    f"steps, more than {NORM.deviations:.0f} standard deviations above this median, and above the "
    "clipping threshold.",
    f"{NORM.of_three} of 3 consecutive steps, or 1 step if the norm exceeds "
    f"{1 + NORM.at_once:.0f} times the median. The check is active from step {LOCAL + WARM_UP} "
    "after a start.",
    "Gradient norms have long tails: two or three times the median is normal, and clipping handles "
    "it. A norm below the clipping threshold does not affect training. Megatron's rerun state "
    "machine also uses a factor of ten. In the training of BLOOM, the norm rose from 0.24 to 960 "
    "within 5 steps before the loss rose (bigscience, chronicles of tr11-176B).",
    "Watch the loss, which may rise a few steps after the norm. Clipping (training.clip_grad_norm) "
    "limits the damage. If the loss spikes, roll back to the last checkpoint before the spike, and "
    "skip the data of the spike or lower the learning rate.",
)


class GradientExplosion:
    rule = GRADIENT_RULE

    def __init__(self, expected: Expectations) -> None:
        self._surge = Surge(replace(NORM, least=expected.clip_grad_norm))

    def observe(self, event: Event) -> Seen:
        """Check a step. Steps that the loss scaler skipped have no meaningful norm."""
        if event.kind is not EventKind.STEP or event.values.get("skipped"):
            return None
        norm = finite(event.values.get("grad_norm"))
        if norm is None or norm < 0:
            return None
        jump = self._surge.take(event.step, norm)
        if jump is None:
            return ()
        norms = f"{jump.value:.4g} at step {event.step:,}, up from {jump.usual:.4g}"
        message = f"The gradient norm is {norms}."
        return (Symptom(message, f"{jump.value:.4g}", jump.since),)
