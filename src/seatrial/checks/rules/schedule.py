# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the learning-rate schedule and evaluation."""

from collections.abc import Iterator

from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.codes.checks import CheckCode
from seatrial.planning.plan import Origin
from seatrial.spec.training import DecayStyle
from seatrial.units import decimal_quotient

PEAK = "training.learning_rate.peak"
CONTINUED = 10
"""Divisor of the default peak to propose for continued pretraining: schedules usually end at that
rate, and warming up to the full peak again raises the loss at first (arXiv 2308.04014,
2403.08763)."""

NOTHING = 1e-3
"""Fraction of the peak below which a learning rate has no useful effect."""
LATE = 0.01
"""Fraction of the run by which the decay may end early because of rounding."""
HIGHEST_RATE = 0.02
"""Far above published values for AdamW: GPT-3 125M uses 6e-4 (arXiv 2005.14165, table 2.1), and
small models in the muTransfer sweeps (arXiv 2203.03466) use about 1e-2."""


def rate_of_nothing(situation: Situation) -> Iterator[Checked]:
    """Report a decay to zero that ends long before the run does."""
    schedule, length = situation.plan.schedule, situation.plan.length
    style = situation.spec.training.learning_rate.style
    if style is DecayStyle.CONSTANT or schedule.minimum > NOTHING * schedule.peak:
        return
    if schedule.decay_samples < (1 - LATE) * length.samples:
        ends = length.steps_within(schedule.decay_samples)
        yield situation.warning(
            CheckCode.RATE_OF_NOTHING,
            "training.learning_rate.decay",
            f"the learning rate is {schedule.minimum:g} from step {ends:,} on, but the run has "
            f"{length.steps:,} steps: the last {length.steps - ends:,} do not train the model.",
            "Extend the decay to the end of the run, or set a minimum learning rate such as "
            f"{schedule.peak / 10:g}.",
            ends,
            proposed("training.learning_rate.decay={fraction: 1.0}"),
        )


def early_decay(situation: Situation) -> Iterator[Checked]:
    """Report a decay that was probably meant to start after the warm-up."""
    schedule, length = situation.plan.schedule, situation.plan.length
    size = situation.plan.batch.global_batch_size
    missing = length.samples - schedule.decay_samples
    if missing <= 0 or abs(missing - schedule.warmup_samples) > size:
        return
    if schedule.minimum > NOTHING * schedule.peak:
        ends = length.steps_within(schedule.decay_samples)
        yield situation.warning(
            CheckCode.EARLY_DECAY,
            "training.learning_rate.decay",
            f"the decay ends at step {ends:,}, one warm-up before the "
            "end of the run. The decay counts from step 0 and includes the warm-up.",
            f"Use {{steps: {length.steps}}}, unless the learning rate should stay at its minimum "
            f"for the last {length.steps - ends:,} steps.",
            ends,
            proposed(f"training.learning_rate.decay={{steps: {length.steps}}}"),
        )


def warmup_beyond(situation: Situation) -> Iterator[Checked]:
    """Report a warm-up that is longer than the run."""
    schedule, length = situation.plan.schedule, situation.plan.length
    if schedule.warmup_samples >= length.samples:
        share = length.samples / schedule.warmup_samples
        steps = length.steps_within(schedule.warmup_samples)
        yield situation.warning(
            CheckCode.WARMUP_BEYOND,
            "training.learning_rate.warmup",
            f"the warm-up takes {steps:,} steps, but the run has "
            f"{length.steps:,}: the learning rate reaches only {100 * share:.0f} % of its peak.",
            "Shorten the warm-up, or make the run longer.",
            steps,
            proposed("training.learning_rate.warmup={fraction: 0.01}"),
        )


def never_evaluated(situation: Situation) -> Iterator[Checked]:
    """Report an evaluation interval that is longer than the run."""
    evaluation, steps = situation.spec.training.evaluation, situation.plan.length.steps
    given = "evaluation" in situation.spec.training.model_fields_set
    if given and evaluation.batches and evaluation.every_steps > steps:
        yield situation.warning(
            CheckCode.NEVER_EVALUATED,
            "training.evaluation.every_steps",
            f"the run ends at step {steps:,}, before its first evaluation at step "
            f"{evaluation.every_steps:,}.",
            f"Use at most {steps}, or set batches: 0 to disable evaluation.",
            evaluation.every_steps,
            proposed(f"training.evaluation.every_steps={max(1, steps // 10)}"),
        )


def high_rate(situation: Situation) -> Iterator[Checked]:
    """Report a peak that is most likely a typo."""
    peak = situation.plan.schedule.peak
    if peak > HIGHEST_RATE:
        yield situation.warning(
            CheckCode.HIGH_RATE,
            "training.learning_rate.peak",
            f"a peak of {peak:g} is far above the values that language models use, mostly 6e-5 to "
            "6e-4.",
            "Check the exponent, or remove the line to use the default.",
            peak,
            proposed("training.learning_rate.peak=null"),
        )


def unset_rate(situation: Situation) -> Iterator[Checked]:
    """Report continued pretraining with the default learning rate, which is for pretraining."""
    if situation.spec.initial_weights is None or situation.plan.origins.get(PEAK) is Origin.YOU:
        return
    peak = situation.plan.schedule.peak
    lower = decimal_quotient(peak, CONTINUED)
    yield situation.warning(
        CheckCode.UNSET_RATE,
        PEAK,
        f"the run starts from trained weights, but the spec sets no learning rate: the run would "
        f"warm up to {peak:g}, a peak for pretraining from scratch. This raises the loss, and the "
        "model forgets part of what it learned.",
        f"Set {PEAK}={lower:g}, where pretraining usually ends, and tune it; or set {peak:g} to "
        "keep this peak.",
        peak,
        proposed(f"{PEAK}={lower:g}"),
    )


RULES = (
    static(CheckCode.RATE_OF_NOTHING, look=rate_of_nothing),
    static(CheckCode.EARLY_DECAY, look=early_decay),
    static(CheckCode.WARMUP_BEYOND, look=warmup_beyond),
    static(CheckCode.NEVER_EVALUATED, look=never_evaluated),
    static(CheckCode.HIGH_RATE, look=high_rate),
    static(CheckCode.UNSET_RATE, look=unset_rate),
)
