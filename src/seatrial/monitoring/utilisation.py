# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The basis of tokens per second and MFU, stated with them."""

from dataclasses import dataclass, replace

from seatrial.planning.timing.breakdown import StepTime
from seatrial.planning.workload import Workload

DEFINITION = (
    "model FLOPs: matrix multiplications with logits, forward and backward (3 × forward), causal "
    "attention counted as half; recomputed work is not counted"
)
"""As in `StepTime.model_flops`; the literature's definition of MFU."""


@dataclass(frozen=True, slots=True)
class MfuBasis:
    """Tokens and FLOPs of one step."""

    tokens_per_step: int
    """Tokens of one optimizer step."""
    gpus: int
    """GPUs that the step is distributed over."""
    model_flops: float | None = None
    """FLOPs of a step that the model needs, over all GPUs."""
    peak_flops: float | None = None
    """Dense peak of one GPU in the precision of the GEMMs, FLOP/s."""
    definition: str = DEFINITION
    """How the operations are counted."""
    peak_of: str = ""
    """The precision and GPU of the peak, such as `h100-80gb in bf16`."""

    def with_tokens(self, tokens: int) -> "MfuBasis":
        """Return the basis of a step with a different batch size."""
        flops = self.model_flops
        if flops is not None:
            flops *= tokens / self.tokens_per_step
        return replace(self, tokens_per_step=tokens, model_flops=flops)

    def tokens_per_second(self, seconds: float) -> float | None:
        """Return tokens per second over all GPUs, for this step time."""
        return self.tokens_per_step / seconds if seconds > 0 else None

    def flops_per_gpu(self, seconds: float) -> float | None:
        """Return FLOP/s per GPU, for this step time."""
        if self.model_flops is None or seconds <= 0:
            return None
        return self.model_flops / (self.gpus * seconds)

    def mfu(self, seconds: float) -> float | None:
        """Return the share of the peak, for this step time."""
        rate = self.flops_per_gpu(seconds)
        return None if rate is None or not self.peak_flops else rate / self.peak_flops


def basis_of(workload: Workload, time: StepTime) -> MfuBasis:
    """Return the tokens and FLOPs of a step of a planned run."""
    return MfuBasis(
        workload.tokens_per_step,
        time.gpus,
        time.model_flops,
        workload.hardware.peak_flops,
        peak_of=f"{workload.hardware.accelerator} in {workload.precision}, dense",
    )
