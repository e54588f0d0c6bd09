# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the learning rate of a run and what it evaluates."""

from collections.abc import Iterator

from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.codes.checks import CheckCode
from seatrial.spec.training import DecayStyle

NOTHING = 1e-3
"""A learning rate below this share of its peak trains nothing worth the time."""
LATE = 0.01
"""A decay that ends so little before the run, as a share of it, is one that was rounded."""
HIGHEST_RATE = 0.02
"""Far above what was published for AdamW: GPT-3 125M has 6e-4 (arXiv 2005.14165, table 2.1), and
small models in muTransfer's sweeps (arXiv 2203.03466) about 1e-2."""


def rate_of_nothing(situation: Situation) -> Iterator[Checked]:
    """A decay to zero that ends long before the run does."""
    schedule, length = situation.plan.schedule, situation.plan.length
    size = situation.plan.batch.global_batch_size
    style = situation.spec.training.learning_rate.style
    if style is DecayStyle.CONSTANT or schedule.minimum > NOTHING * schedule.peak:
        return
    if schedule.decay_samples < (1 - LATE) * length.samples:
        ends = schedule.decay_samples // size
        yield situation.warning(
            CheckCode.RATE_OF_NOTHING,
            "training.learning_rate.decay",
            f"the learning rate is {schedule.minimum:g} from step {ends:,} on, and the run has "
            f"{length.steps:,}: the last {length.steps - ends:,} learn nothing.",
            f"Let the decay end with the run, or give a minimum such as {schedule.peak / 10:g}.",
            ends,
            proposed("training.learning_rate.decay={fraction: 1.0}"),
        )


def early_decay(situation: Situation) -> Iterator[Checked]:
    """A decay of as many steps as the warm-up leaves, which is counted from the beginning."""
    schedule, length = situation.plan.schedule, situation.plan.length
    size = situation.plan.batch.global_batch_size
    missing = length.samples - schedule.decay_samples
    if missing <= 0 or abs(missing - schedule.warmup_samples) > size:
        return
    if schedule.minimum > NOTHING * schedule.peak:
        yield situation.warning(
            CheckCode.EARLY_DECAY,
            "training.learning_rate.decay",
            f"the decay ends at step {schedule.decay_samples // size:,}, as many before the end of "
            f"the run as the warm-up takes: it is counted from the beginning, warm-up included.",
            f"Use {{steps: {length.steps}}}, unless the last {missing // size:,} steps shall stay "
            "at the minimum.",
            schedule.decay_samples // size,
            proposed(f"training.learning_rate.decay={{steps: {length.steps}}}"),
        )


def warmup_beyond(situation: Situation) -> Iterator[Checked]:
    """A warm-up that the run does not live to see the end of."""
    schedule, length = situation.plan.schedule, situation.plan.length
    size = situation.plan.batch.global_batch_size
    if schedule.warmup_samples >= length.samples:
        share = length.samples / schedule.warmup_samples
        yield situation.warning(
            CheckCode.WARMUP_BEYOND,
            "training.learning_rate.warmup",
            f"the warm-up takes {schedule.warmup_samples // size:,} steps and the run has "
            f"{length.steps:,}: the rate reaches {100 * share:.0f} % of its peak.",
            "Make the warm-up shorter, or the run longer.",
            schedule.warmup_samples // size,
            proposed("training.learning_rate.warmup={fraction: 0.01}"),
        )


def never_evaluated(situation: Situation) -> Iterator[Checked]:
    """An interval between evaluations that is longer than the run."""
    evaluation, steps = situation.spec.training.evaluation, situation.plan.length.steps
    given = "evaluation" in situation.spec.training.model_fields_set
    if given and evaluation.batches and evaluation.every_steps > steps:
        yield situation.warning(
            CheckCode.NEVER_EVALUATED,
            "training.evaluation.every_steps",
            f"the run ends at step {steps:,}, before its first evaluation at "
            f"{evaluation.every_steps:,}.",
            f"Use at most {steps}, or batches: 0 to do without.",
            evaluation.every_steps,
            proposed(f"training.evaluation.every_steps={max(1, steps // 10)}"),
        )


def high_rate(situation: Situation) -> Iterator[Checked]:
    """A peak that is most likely a slip of the pen."""
    peak = situation.plan.schedule.peak
    if peak > HIGHEST_RATE:
        yield situation.warning(
            CheckCode.HIGH_RATE,
            "training.learning_rate.peak",
            f"a peak of {peak:g} is far above what language models were trained with, "
            "6e-5 to 6e-4 for most.",
            "Check the exponent, or leave the line out for the usual rate.",
            peak,
            proposed("training.learning_rate.peak=null"),
        )


RULES = (
    static(CheckCode.RATE_OF_NOTHING, look=rate_of_nothing),
    static(CheckCode.EARLY_DECAY, look=early_decay),
    static(CheckCode.WARMUP_BEYOND, look=warmup_beyond),
    static(CheckCode.NEVER_EVALUATED, look=never_evaluated),
    static(CheckCode.HIGH_RATE, look=high_rate),
)
