# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""GPU memory by stage and part, and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class MemoryPart(StrEnum):
    """The parts of the memory that a training process needs on its GPU."""

    WEIGHTS = "weights"
    """Parameters in the format of the GEMMs and, with FSDP, gathered layers."""
    GRADIENTS = "gradients"
    """Gradients that the engine accumulates over the micro-batches of a step."""
    OPTIMIZER = "optimizer"
    """fp32 master weights and the optimizer's moments, or this rank's shard of them."""
    ACTIVATIONS = "activations"
    """Tensors stored for the backward pass, for all micro-batches in flight."""
    LOGITS = "logits"
    """Output of the last stage over the vocabulary, its softmax and its gradient."""
    COMMUNICATION = "communication"
    """CUDA context, libraries and communicators, outside torch's allocator."""
    FRAGMENTATION = "fragmentation"
    """Memory that torch's allocator reserves beyond the allocated peak."""


class MemoryFit(StrEnum):
    """The verdict: whether a layout fits on the GPU."""

    FITS = "fits"
    """The layout fits, including the error bar."""
    RISKY = "risky"
    """The limit is within the error bar: only a short trial can show whether the layout fits."""
    DOES_NOT_FIT = "does-not-fit"
    """The layout does not fit, even at the lower end of the error bar."""


@dataclass(frozen=True, slots=True)
class StageMemory:
    """The peak memory of one rank of a pipeline stage, in bytes."""

    index: int
    """Index of the stage, from 0."""
    weights: int
    """See `MemoryPart.WEIGHTS`."""
    gradients: int
    """See `MemoryPart.GRADIENTS`."""
    optimizer: int
    """See `MemoryPart.OPTIMIZER`."""
    activations: int
    """See `MemoryPart.ACTIVATIONS`."""
    logits: int
    """See `MemoryPart.LOGITS`."""
    communication: int
    """See `MemoryPart.COMMUNICATION`."""
    fragmentation: int
    """See `MemoryPart.FRAGMENTATION`."""

    @property
    def parts(self) -> Mapping[MemoryPart, int]:
        """The size of every part; they add up to `total`."""
        return {part: getattr(self, part.value) for part in MemoryPart}

    @property
    def allocated(self) -> int:
        """The peak of live tensors, as in `torch.cuda.max_memory_allocated`."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    @property
    def total(self) -> int:
        """The device memory of the process, as in `nvidia-smi`."""
        return self.allocated + self.communication + self.fragmentation


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a layout, and the verdict."""

    stages: tuple[StageMemory, ...]
    """The stages that can need the most memory: the first, the second, the last, in order."""
    fullest: StageMemory
    """The stage that needs the most memory."""
    verdict: MemoryFit
    """The verdict on the fullest stage."""
    headroom: int
    """Free device memory on the fullest stage, in bytes; negative if the stage does not fit."""
    error: float
    """Relative error bar: that of nine of ten held-out published runs, plus `assumed`."""
    untested: tuple[str, ...] = ()
    """Features that published figures barely test; the error bar covers their full effect."""
    assumed: float = 0.0
    """The part of the error bar that is assumed for `untested`; the rest is measured."""

    @property
    def tested(self) -> float:
        """The part of the error bar that published runs show."""
        return self.error - self.assumed
