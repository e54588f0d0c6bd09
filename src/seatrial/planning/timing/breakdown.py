# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the time of a step is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class TimePart(StrEnum):
    """A part of the time of a step; the parts add up to it."""

    COMPUTE = "compute"
    """Matrix products, norms and activations of the slowest stage, attention apart."""
    ATTENTION = "attention"
    """Scores and their sum over values, of the slowest stage."""
    TENSOR_PARALLEL = "tensor-parallel"
    """Collectives inside layers that compute waits for."""
    CONTEXT_PARALLEL = "context-parallel"
    """Keys and values that attention waits for."""
    EXPERT_PARALLEL = "expert-parallel"
    """Tokens on their way to experts and back that compute waits for."""
    PIPELINE_TRANSFER = "pipeline-transfer"
    """Activations and their gradients on their way between stages."""
    BUBBLE = "bubble"
    """The slowest stage waits for the pipeline to fill and to drain."""
    DATA_PARALLEL = "data-parallel"
    """Gradients and weights on their way between model copies that nothing hides."""
    OPTIMIZER = "optimizer"
    """The update of weights and moments."""
    OTHER = "other"
    """What every step costs beside: data, norms, bookkeeping."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The predicted time of one optimizer step."""

    parts: Mapping[TimePart, float]
    """Seconds of each part; they add up to the total."""
    stages: tuple[float, ...]
    """Seconds that one micro batch takes on each pipeline stage, forward and backward."""
    model_flops: float
    """Floating-point operations of a step that the model needs, over all GPUs.

    Matrix products, logits included, forward and backward (three times forward), attention
    counted causally (half of the square). Recomputed work is not counted, nor is anything but
    products; so a GPU's share of peak is what the literature calls MFU.
    """
    gpus: int
    """GPUs of the run."""
    error: float
    """Relative error to expect, from published runs that were not fitted."""

    @property
    def total(self) -> float:
        """Seconds of the step."""
        return sum(self.parts.values())

    @property
    def flops_per_gpu(self) -> float:
        """Model floating-point operations per second of one GPU."""
        return self.model_flops / (self.total * self.gpus)
