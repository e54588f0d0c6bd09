# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What tokens per second and a share of peak are counted by: the basis of MFU, stated with it."""

from dataclasses import dataclass

from seatrial.planning.timing.breakdown import StepTime
from seatrial.planning.workload import Workload

DEFINITION = (
    "model FLOPs: matrix products with logits, forward and backward (3 × forward), causal "
    "attention counted by half; recomputed work is not counted"
)
"""As `StepTime.model_flops` counts; what the literature calls MFU."""


@dataclass(frozen=True, slots=True)
class MfuBasis:
    """What one step is worth."""

    tokens_per_step: int
    """Tokens of one optimizer step."""
    gpus: int
    """GPUs that share it."""
    model_flops: float | None = None
    """Floating-point operations of a step that the model needs, over all GPUs."""
    peak_flops: float | None = None
    """Dense peak of one GPU in the precision of the matrix products, FLOP/s."""
    definition: str = DEFINITION
    """How the operations are counted."""
    peak_of: str = ""
    """What the peak is of, such as `h100-80gb in bf16`."""

    def tokens_per_second(self, seconds: float) -> float | None:
        """Tokens per second, of all GPUs, where a step takes so long."""
        return self.tokens_per_step / seconds if seconds > 0 else None

    def flops_per_gpu(self, seconds: float) -> float | None:
        """FLOP/s of one GPU, where a step takes so long."""
        if self.model_flops is None or seconds <= 0:
            return None
        return self.model_flops / (self.gpus * seconds)

    def mfu(self, seconds: float) -> float | None:
        """The share of the peak, where a step takes so long."""
        rate = self.flops_per_gpu(seconds)
        return None if rate is None or not self.peak_flops else rate / self.peak_flops


def basis_of(workload: Workload, time: StepTime) -> MfuBasis:
    """What a step of a planned run is worth."""
    return MfuBasis(
        workload.tokens_per_step,
        time.gpus,
        time.model_flops,
        workload.hardware.peak_flops,
        peak_of=f"{workload.hardware.accelerator} in {workload.precision}, dense",
    )
