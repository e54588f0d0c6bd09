# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a step time."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class TimePart(StrEnum):
    """A part of a step time; the parts add up to the total."""

    COMPUTE = "compute"
    """Matrix multiplications, norms and activations on the slowest stage, without attention."""
    ATTENTION = "attention"
    """Core attention on the slowest stage."""
    TENSOR_PARALLEL = "tensor-parallel"
    """Exposed collectives inside layers."""
    CONTEXT_PARALLEL = "context-parallel"
    """Exposed transfers of keys and values."""
    EXPERT_PARALLEL = "expert-parallel"
    """Exposed transfers of tokens to experts and back."""
    PIPELINE_TRANSFER = "pipeline-transfer"
    """Transfers of activations and gradients between stages."""
    BUBBLE = "bubble"
    """Idle time of the slowest stage while the pipeline fills and drains."""
    DATA_PARALLEL = "data-parallel"
    """Exposed transfers of gradients and weights between model replicas."""
    OPTIMIZER = "optimizer"
    """The update of weights and moments."""
    OTHER = "other"
    """Fixed overhead per step: data, norms, bookkeeping."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The predicted time of one optimizer step."""

    parts: Mapping[TimePart, float]
    """Seconds of each part; they add up to the total."""
    stages: tuple[float, ...]
    """Seconds per micro-batch on each pipeline stage, forward and backward."""
    model_flops: float
    """Floating-point operations per step that the model needs, over all GPUs.

    These are the GEMMs including logits, forward and backward (three times forward), with causal
    attention (half of the square). Recomputation and other operations are not counted, so the
    fraction of the peak is the model FLOPs utilization (MFU).
    """
    gpus: int
    """Number of GPUs."""
    error: float
    """Expected relative error, from published runs that were not fitted."""

    @property
    def total(self) -> float:
        """Seconds per step."""
        return sum(self.parts.values())

    @property
    def flops_per_gpu(self) -> float:
        """Model floating-point operations per second per GPU."""
        return self.model_flops / (self.total * self.gpus)
