# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""To what a layout loses time beside another: the parts of the step that differ, in words."""

from enum import Enum

from seatrial.planning.search.outcome import Priced
from seatrial.planning.timing.parts import TimePart
from seatrial.spec.parallelism import Recompute

ALSO = 0.5
"""A second cause is named where it costs at least this share of the first."""
_WEIGHT = {Recompute.NONE: 0, Recompute.SELECTIVE: 1, Recompute.FULL: 2}


class Cause(Enum):
    """What costs one layout more time than another: how it is lost, and how it is saved."""

    COMPUTE = ("compute", "less compute")
    MATRICES = ("smaller matrices", "larger matrices")
    RECOMPUTE = ("recomputing", "less recomputing")
    UNEVEN = ("uneven stages", "more even stages")
    ATTENTION = ("attention", "less time in attention")
    TENSOR_PARALLEL = ("tp traffic", "less tp traffic")
    CONTEXT_PARALLEL = ("cp traffic", "less cp traffic")
    EXPERT_PARALLEL = ("ep traffic", "less ep traffic")
    PIPELINE_TRANSFER = ("transfers between stages", "fewer transfers between stages")
    BUBBLE = ("the bubble", "a smaller bubble")
    DATA_PARALLEL = ("dp traffic", "less dp traffic")
    OPTIMIZER = ("the optimizer", "a shorter optimizer step")
    OTHER = ("overhead of the step", "less overhead of the step")

    @property
    def lost(self) -> str:
        """As in `loses 9 % to ...`."""
        return self.value[0]

    @property
    def saved(self) -> str:
        """As in `gains 9 % by ...`."""
        return self.value[1]


_OF_A_STAGE = {
    TimePart.COMPUTE: Cause.COMPUTE,
    TimePart.ATTENTION: Cause.ATTENTION,
    TimePart.TENSOR_PARALLEL: Cause.TENSOR_PARALLEL,
    TimePart.CONTEXT_PARALLEL: Cause.CONTEXT_PARALLEL,
    TimePart.EXPERT_PARALLEL: Cause.EXPERT_PARALLEL,
}
_OF_THE_STEP = {
    TimePart.PIPELINE_TRANSFER: Cause.PIPELINE_TRANSFER,
    TimePart.BUBBLE: Cause.BUBBLE,
    TimePart.DATA_PARALLEL: Cause.DATA_PARALLEL,
    TimePart.OPTIMIZER: Cause.OPTIMIZER,
    TimePart.OTHER: Cause.OTHER,
}


def causes(slower: Priced, faster: Priced) -> list[Cause]:
    """What costs the slower layout most beside the faster, per token; one cause, or two."""
    one, other = _spent(slower), _spent(faster)
    more = {cause: seconds - other[cause] for cause, seconds in one.items()}
    first, second = sorted(more, key=lambda cause: -more[cause])[:2]
    named = [first, second] if more[second] >= ALSO * more[first] > 0 else [first]
    return list(dict.fromkeys(_exactly(cause, slower, faster) for cause in named))


def _spent(priced: Priced) -> dict[Cause, float]:
    """Seconds per token by cause.

    The parts of a step are those of its slowest stage. What that stage takes longer than the mean
    is lost to the unevenness of stages, whatever the part, and is taken out of its parts.
    """
    parts, stages = priced.time.parts, priced.time.stages
    inside = sum(parts.get(part, 0.0) for part in _OF_A_STAGE)
    uneven = priced.workload.micro_batches * (max(stages) - sum(stages) / len(stages))
    share = 1 - min(1.0, uneven / inside) if inside else 1.0
    spent = {cause: share * parts.get(part, 0.0) for part, cause in _OF_A_STAGE.items()}
    spent |= {cause: parts.get(part, 0.0) for part, cause in _OF_THE_STEP.items()}
    spent[Cause.UNEVEN] = min(uneven, inside)
    tokens = priced.workload.tokens_per_step
    return {cause: seconds / tokens for cause, seconds in spent.items()}


def _exactly(cause: Cause, slower: Priced, faster: Priced) -> Cause:
    """Of compute and attention, whether they are done again, or done on smaller matrices."""
    heavier = _WEIGHT[slower.candidate.recompute] > _WEIGHT[faster.candidate.recompute]
    if cause in (Cause.COMPUTE, Cause.ATTENTION) and heavier:
        return Cause.RECOMPUTE
    if cause is Cause.COMPUTE and _matrix(slower) < _matrix(faster):
        return Cause.MATRICES
    return cause


def _matrix(priced: Priced) -> float:
    """How large the matrices of a product are, up to a factor that all layouts share."""
    layout = priced.candidate.shape.layout
    cut = layout.tp_size * layout.cp_size
    # The tokens of more ranks meet at an expert where more ranks share the experts out.
    gathered = layout.ep_size if priced.workload.model.moe is not None else 1
    return priced.candidate.micro_batch_size * gathered / cut
