# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules for length, schedule, checkpoints and evaluation, each with valid values."""

from itertools import pairwise

from seatrial.codes.planning import PlanCode
from seatrial.planning.finding_report import FindingReport
from seatrial.planning.layout_rules import nearby_multiples
from seatrial.planning.length import Length, Schedule
from seatrial.spec.checkpoints import CheckpointsSpec
from seatrial.spec.training import TrainingSpec


def check_length(report: FindingReport, length: Length) -> None:
    """Check that the run has at least one step."""
    batch = length.phases[0].global_batch_size
    if length.steps == 0:
        report.error(
            PlanCode.LENGTH,
            "training.samples",
            f"{length.samples} samples are fewer than one global batch of {batch}.",
            length.samples,
            f"Use at least {batch} samples.",
        )


def check_batch_schedule(
    report: FindingReport, training: TrainingSpec, length: Length, sequence_length: int
) -> None:
    """Check that every batch size of the schedule is used for at least one step."""
    starts = pairwise(phase.first_step for phase in length.phases)
    for number, (first, after) in enumerate(starts):
        until = training.batch_schedule[number].until_tokens
        field = f"training.batch_schedule[{number}].until_tokens"
        if first == after:
            read = length.phases[number].first_sample * sequence_length
            report.error(
                PlanCode.BATCH_SCHEDULE,
                field,
                f"no step has this batch size: {read:,} tokens are trained before it, and it "
                f"ends at {until:,}.",
                until,
                f"Use at least {read + sequence_length:,}, or remove this batch size.",
            )
        elif after >= length.steps > 0:
            report.error(
                PlanCode.BATCH_SCHEDULE,
                field,
                f"the run ends after {length.tokens:,} tokens, so its batch size never grows "
                "beyond this one.",
                until,
                f"Use fewer than {length.tokens:,} tokens, or make the run longer.",
            )
            return


def check_schedule(report: FindingReport, schedule: Schedule) -> None:
    """Check that the warm-up ends before the decay, and that the minimum is below the peak."""
    if schedule.warmup_samples >= schedule.decay_samples:
        report.error(
            PlanCode.WARMUP,
            "training.learning_rate.warmup",
            f"the warm-up ends after {schedule.warmup_samples:,} samples, but the decay ends after "
            f"{schedule.decay_samples:,}.",
            schedule.warmup_samples,
            "Make the warm-up shorter than the decay.",
        )
    elif schedule.anneal_samples > schedule.decay_samples - schedule.warmup_samples:
        most = schedule.decay_samples - schedule.warmup_samples
        report.error(
            PlanCode.ANNEAL,
            "training.learning_rate.anneal",
            f"the decay takes the last {schedule.anneal_samples:,} of {schedule.decay_samples:,} "
            f"samples, so it begins before the warm-up ends after {schedule.warmup_samples:,}.",
            schedule.anneal_samples,
            f"Use at most {most:,} samples, or a shorter warm-up.",
        )
    if schedule.minimum > schedule.peak:
        report.error(
            PlanCode.RATE,
            "training.learning_rate.minimum",
            f"the minimum {schedule.minimum:g} is above the peak {schedule.peak:g}.",
            schedule.minimum,
            f"Use at most {schedule.peak:g}; {schedule.peak / 10:g} is usual.",
        )


def check_saves(report: FindingReport, length: Length, interval: int, retained: int | None) -> None:
    """Check that a run saves before it ends, and at the steps that it keeps permanently."""
    if 0 < length.steps < interval:
        report.error(
            PlanCode.SAVES,
            "checkpoints.every_steps",
            f"the run ends at step {length.steps:,}, before its first save at step {interval:,}.",
            interval,
            f"Use at most {length.steps}, or make the run longer.",
        )
    # A first permanent checkpoint after the end of the run is never written.
    if retained is not None and retained <= length.steps and retained % interval:
        report.error(
            PlanCode.RETENTION,
            "checkpoints.keep_every_steps",
            f"{retained} is not a multiple of every_steps, which is {interval}.",
            retained,
            f"Use {nearby_multiples(retained, interval)}.",
        )


def check_timed_saves(report: FindingReport, saves: CheckpointsSpec, accelerator: str) -> None:
    """Check that the step time, which an interval in minutes or hours needs, is estimated."""
    if saves.every_seconds is not None and not accelerator:
        report.error(
            PlanCode.SAVES,
            saves.interval_field,
            f"{saves.interval_field} needs a step time, which Seatrial estimates only for GPUs.",
            f"{saves.every_minutes or saves.every_hours:g}",
            "Use checkpoints.every_steps instead.",
        )


def check_evaluation(
    report: FindingReport, training: TrainingSpec, split: tuple[float, float, float]
) -> None:
    """Check that the split has data for evaluation."""
    batches = training.evaluation.batches
    if batches and not split[1]:
        report.error(
            PlanCode.EVALUATION,
            "data.split",
            f"the split has no data for validation, but each evaluation reads {batches} batches.",
            f"{split[0]:g}, {split[1]:g}, {split[2]:g}",
            "Use a split such as [98, 2, 0], or set training.evaluation.batches=0.",
        )
