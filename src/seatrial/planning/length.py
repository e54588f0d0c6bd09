# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The length of a run, its schedule and its evaluations, in samples."""

from dataclasses import dataclass
from itertools import pairwise

from seatrial.spec.training import EarlyBatch, Span, TrainingSpec


@dataclass(frozen=True, slots=True)
class BatchPhase:
    """A part of the run with one batch size."""

    global_batch_size: int
    """Sequences per step."""
    first_step: int
    """Steps before this part."""
    first_sample: int
    """Sequences that training reads before this part."""


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a run in every unit, and the samples that its data must provide."""

    steps: int
    """Optimizer steps."""
    samples: int
    """Sequences that training reads."""
    tokens: int
    """Tokens that the steps train on."""
    validation_samples: int
    """Sequences that all evaluations read together, as counted by the engine."""
    test_samples: int
    """Sequences in the final test."""
    phases: tuple[BatchPhase, ...]
    """The parts of the run with different batch sizes; one part if the batch size is constant."""

    def samples_after(self, steps: int) -> int:
        """Return the sequences that the first so many steps read."""
        return samples_after(self.phases, steps)

    def steps_within(self, samples: int) -> int:
        """Return the whole steps that read the first so many sequences."""
        return steps_within(self.phases, samples)

    def first_step_from(self, samples: int) -> int:
        """Return the first step that reads no sequence before this one."""
        return first_step_from(self.phases, samples)

    @property
    def steps_by_phase(self) -> tuple[int, ...]:
        """The number of steps in each part of the run."""
        starts = [*(phase.first_step for phase in self.phases), self.steps]
        return tuple(after - first for first, after in pairwise(starts))

    @property
    def largest_growth(self) -> float:
        """The largest factor by which the batch size grows at once; 1 if it is constant."""
        sizes = [phase.global_batch_size for phase in self.phases]
        return max((after / size for size, after in pairwise(sizes)), default=1.0)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The learning rate over the run."""

    peak: float
    """Highest learning rate."""
    minimum: float
    """Learning rate at the end of the decay."""
    warmup_samples: int
    """Sequences in the warm-up."""
    decay_samples: int
    """Sequences from the start of the run to the end of the decay."""
    anneal_samples: int = 0
    """Sequences in the final decay, with style `wsd`."""


def batch_phases(
    schedule: tuple[EarlyBatch, ...], global_batch_size: int, sequence_length: int
) -> tuple[BatchPhase, ...]:
    """Return the parts of a run; a step that begins before a batch size ends still uses it."""
    phases = []
    step = sample = 0
    for early in schedule:
        phases.append(BatchPhase(early.global_batch_size, step, sample))
        left = max(0, early.until_tokens // sequence_length - sample)
        steps = -(-left // early.global_batch_size)
        step, sample = step + steps, sample + steps * early.global_batch_size
    return (*phases, BatchPhase(global_batch_size, step, sample))


def samples_after(phases: tuple[BatchPhase, ...], steps: int) -> int:
    """Return the sequences that the first so many steps read."""
    phase = next((one for one in reversed(phases) if one.first_step <= steps), phases[0])
    return phase.first_sample + (steps - phase.first_step) * phase.global_batch_size


def steps_within(phases: tuple[BatchPhase, ...], samples: int) -> int:
    """Return the whole steps that read the first so many sequences."""
    phase = next((one for one in reversed(phases) if one.first_sample <= samples), phases[0])
    return phase.first_step + (samples - phase.first_sample) // phase.global_batch_size


def first_step_from(phases: tuple[BatchPhase, ...], samples: int) -> int:
    """Return the first step that reads no sequence before this one."""
    steps = steps_within(phases, samples)
    return steps + (samples_after(phases, steps) < samples)


def run_length(training: TrainingSpec, global_batch_size: int, sequence_length: int) -> Length:
    """Return the length; samples are rounded down, and tokens up, to a whole batch."""
    phases = batch_phases(training.batch_schedule, global_batch_size, sequence_length)
    if training.steps is not None:
        steps = training.steps
    elif training.samples is not None:
        steps = steps_within(phases, training.samples)
    else:
        steps = first_step_from(phases, -(-(training.tokens or 0) // sequence_length))
    trained = samples_after(phases, steps)
    evaluation = training.evaluation
    evaluations = steps // evaluation.every_steps + 1
    whole = training.samples is None or len(phases) > 1
    return Length(
        steps=steps,
        # With a constant batch size, the engine rounds samples down to whole steps itself.
        samples=trained if whole else training.samples or 0,
        tokens=trained * sequence_length,
        # Evaluations use the last batch size throughout.
        validation_samples=evaluations * evaluation.batches * global_batch_size,
        test_samples=evaluation.batches * global_batch_size,
        phases=phases,
    )


def span_samples(span: Span, length: Length, sequence_length: int) -> int:
    """Return a part of the run that starts at its first step, in samples."""
    if span.steps is not None:
        return length.samples_after(span.steps)
    if span.samples is not None:
        return span.samples
    if span.tokens is not None:
        return -(-span.tokens // sequence_length)
    return round((span.fraction or 0.0) * length.samples)


def anneal_samples(span: Span, length: Length, decay_samples: int, sequence_length: int) -> int:
    """Return the final decay in samples; steps are counted back from the end of the decay."""
    if span.steps is None:
        return span_samples(span, length, sequence_length)
    end = length.steps_within(decay_samples)
    return length.samples_after(end) - length.samples_after(end - span.steps)
