# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A curve that jumps up: what the loss and the gradient norm have in common.

What is usual is the median of the newest steps, so that a curve that falls is not held against
its past; how far a step strays from that is measured over more steps. Steps that stray too far are
left out of both, for otherwise a jump would soon be usual.
"""

from collections import deque
from dataclasses import dataclass, replace

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Expectations, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import Recent, finite, percent
from seatrial.monitoring.event_log import Event, EventKind

LOCAL = 16
"""Steps whose median is what is usual now."""
WINDOW = 128
"""Steps that the straying is measured over, as OLMo-core's monitor of spikes does."""
WARM_UP = 32
"""Steps after a start before anything is judged: of fewer, a deviation says little."""
RELEARN = 200
"""Steps after which a level that stays is the new usual one."""


@dataclass(frozen=True, slots=True)
class SpikeLimits:
    """From where on a step has jumped."""

    deviations: float
    """Standard deviations above what is usual."""
    share: float
    """And at least so much of what is usual above it."""
    at_once: float
    """So much of what is usual above it is enough in a single step."""
    more: float = 0.0
    """And at least so much above what is usual."""
    least: float = 0.0
    """And at least so much in all."""
    of_three: int = 2
    """Steps of three in a row that have to be above, otherwise."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A curve that has jumped."""

    value: float
    """Where it is now."""
    usual: float
    since: int
    """The first step above."""


class Surge:
    """Judges one curve, step by step."""

    def __init__(self, limits: SpikeLimits) -> None:
        """Begin before the first step."""
        self._limits = limits
        self._local = Recent(LOCAL)
        self._strays = Recent(WINDOW)
        self._above: deque[tuple[int, bool]] = deque(maxlen=3)
        self._jumped: Jump | None = None
        self._length = 0

    def take(self, step: int, value: float) -> Jump | None:
        """Take in a step; the jump, as long as the curve is up."""
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
        """How far above what is usual is too far."""
        limits = self._limits
        deviations = limits.deviations * self._strays.spread()
        return max(deviations, limits.share * usual, limits.more)

    def _learn(self, value: float, usual: float) -> None:
        """What a good step teaches."""
        if self._local.full:
            self._strays.add(value - usual)
        self._local.add(value)

    def _forget(self) -> None:
        """Begin anew."""
        self._local.clear()
        self._strays.clear()
        self._above.clear()
        self._jumped, self._length = None, 0


LOSS = SpikeLimits(deviations=6.0, share=0.1, at_once=1.0, more=0.1)

LOSS_RULE = AnomalyRule(
    AnomalyCode.LOSS_SPIKE,
    "Loss spike",
    Severity.WARNING,
    f"The loss is above the median of the {LOCAL} steps before by more than "
    f"{LOSS.deviations:.0f} standard deviations (by the median absolute deviation of {WINDOW} "
    f"steps), by {percent(LOSS.share)} and by {LOSS.more} nat.",
    f"{LOSS.of_three} of 3 steps; a loss that doubles, 1 step. Judged from step "
    f"{LOCAL + WARM_UP} after a start.",
    "OLMo-core counts a step as a spike at 6 standard deviations over 128 steps "
    "(StabilityMonitor). One strange batch does that now and then and harms nothing, so a second "
    f"step is asked for, unless the loss doubles. Below {percent(LOSS.share)}, or {LOSS.more} "
    "nat (a tenth of the perplexity), nobody would stop a run, however quiet its loss was.",
    "Watch whether it comes back by itself within some hundred steps. If it does not, go back to "
    "the checkpoint before the first of these steps, and skip their data or lower the learning "
    "rate.",
)


class LossSpike:
    rule = LOSS_RULE
    """What it watches for."""

    def __init__(self) -> None:
        """Begin before the first step."""
        self._surge = Surge(LOSS)

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


NORM = SpikeLimits(deviations=6.0, share=9.0, at_once=99.0)

GRADIENT_RULE = AnomalyRule(
    AnomalyCode.GRADIENT_EXPLOSION,
    "Gradient explosion",
    Severity.WARNING,
    f"The gradient norm is more than {1 + NORM.share:.0f} times the median of the {LOCAL} steps "
    f"before, {NORM.deviations:.0f} standard deviations above it, and above the norm that "
    "gradients are clipped at.",
    f"{NORM.of_three} of 3 steps; {1 + NORM.at_once:.0f} times as much, 1 step. Judged from "
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
    rule = GRADIENT_RULE
    """What it watches for."""

    def __init__(self, expected: Expectations) -> None:
        """Begin before the first step."""
        self._surge = Surge(replace(NORM, least=expected.clip_grad_norm))

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
