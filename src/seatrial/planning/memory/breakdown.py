# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What fills a GPU's memory, stage by stage, and whether it fits."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class MemoryPart(StrEnum):
    """The parts that add up to what a training process needs on its GPU."""

    WEIGHTS = "weights"
    """Parameters in the format of the matrix products; with FSDP also the layers gathered."""
    GRADIENTS = "gradients"
    """Gradients as the engine accumulates them over the micro batches of a step."""
    OPTIMIZER = "optimizer"
    """fp32 master weights and both moments of Adam, or this rank's share of them."""
    ACTIVATIONS = "activations"
    """What the forward pass keeps for the backward pass, of all micro batches in flight."""
    LOGITS = "logits"
    """Output of the last stage over the vocabulary, its softmax and its gradient."""
    COMMUNICATION = "communication"
    """CUDA context, libraries and communicators: what is used outside torch's allocator."""
    FRAGMENTATION = "fragmentation"
    """What torch's allocator holds reserved beyond what is allocated at the peak."""


class MemoryFit(StrEnum):
    """Whether a layout fits the GPU."""

    FITS = "fits"
    """It fits, error bar included."""
    RISKY = "risky"
    """The error bar spans the GPU's memory: a short trial has to show it."""
    DOES_NOT_FIT = "does-not-fit"
    """It does not fit, error bar included."""


@dataclass(frozen=True, slots=True)
class StageMemory:
    """What one rank of a pipeline stage needs at its peak, in bytes."""

    index: int
    """Number of the stage, from 0."""
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
        """Every part by its name; they add up to `total`."""
        return {part: getattr(self, part.value) for part in MemoryPart}

    @property
    def allocated(self) -> int:
        """The peak of live tensors: what `torch.cuda.max_memory_allocated` reports."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    @property
    def total(self) -> int:
        """What the process takes of the device: what `nvidia-smi` reports."""
        return self.allocated + self.communication + self.fragmentation


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a layout, and whether it fits."""

    stages: tuple[StageMemory, ...]
    """The stages that can be the fullest: the first, the second, the last, in order."""
    fullest: StageMemory
    """The stage that needs most."""
    verdict: MemoryFit
    """Whether the fullest stage fits."""
    headroom: int
    """Device memory minus the need of the fullest stage, in bytes; negative when it lacks."""
    error: float
    """Relative error bar: nine of ten held-out published runs were closer than this, the part that
    is assumed apart."""
    untested: tuple[str, ...] = ()
    """What published figures hardly test, in words; the error bar spans all that it changes."""
    assumed: float = 0.0
    """The part of the error bar that is assumed for `untested`; the rest was measured."""

    @property
    def tested(self) -> float:
        """The part of the error bar that published runs gave."""
        return self.error - self.assumed
