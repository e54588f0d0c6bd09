# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The length of a run, its schedule and its evaluations, in samples."""

from dataclasses import dataclass

from seatrial.spec.training import Span, TrainingSpec


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


def run_length(training: TrainingSpec, global_batch_size: int, sequence_length: int) -> Length:
    """Return the length; samples are rounded down, and tokens up, to a whole batch."""
    if training.steps is not None:
        steps = training.steps
        samples = steps * global_batch_size
    elif training.samples is not None:
        samples = training.samples
        steps = samples // global_batch_size
    else:
        tokens_per_step = global_batch_size * sequence_length
        steps = -(-(training.tokens or 0) // tokens_per_step)
        samples = steps * global_batch_size
    evaluation = training.evaluation
    evaluations = steps // evaluation.every_steps + 1
    return Length(
        steps=steps,
        samples=samples,
        tokens=steps * global_batch_size * sequence_length,
        validation_samples=evaluations * evaluation.batches * global_batch_size,
        test_samples=evaluation.batches * global_batch_size,
    )


def span_samples(span: Span, samples: int, global_batch_size: int, sequence_length: int) -> int:
    """Return a part of the run in samples."""
    if span.steps is not None:
        return span.steps * global_batch_size
    if span.samples is not None:
        return span.samples
    if span.tokens is not None:
        return -(-span.tokens // sequence_length)
    return round((span.fraction or 0.0) * samples)
