# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The performance section: options that change the speed and the memory of a run."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from seatrial.codes.spec import SpecCode
from seatrial.spec.base import SpecModel, broken
from seatrial.spec.scalars import AUTO, Auto, AutoFlag
from seatrial.spec.secrets import shown


class TokenDispatcher(StrEnum):
    """How tokens are sent to their experts and back."""

    AUTO = "auto"
    """The planner decides."""
    ALLTOALL = "alltoall"
    """NCCL's all-to-all: every copy of a token is sent separately."""
    ALLGATHER = "allgather"
    """Every rank receives all tokens; for few experts per token."""
    DEEPEP = "deepep"
    """DeepEP: a token is sent once to each node that has one of its experts. Needs its package."""
    HYBRIDEP = "hybridep"
    """DeepEP's variant for NVLink domains of several nodes (NVL72). Needs its package."""


class CudaGraphs(StrEnum):
    """Which parts of a step are recorded as CUDA graphs, whose kernels start without the host."""

    AUTO = "auto"
    """The planner decides."""
    NONE = "none"
    """None."""
    LAYERS = "layers"
    """Attention and, in dense layers, the feed-forward block; with experts, also the router."""
    STEP = "step"
    """The forward and backward passes of a whole step. The engine then cannot check for NaN."""


class MomentPrecision(StrEnum):
    """The number format of the optimizer's two moments."""

    AUTO = "auto"
    """The planner decides."""
    FP32 = "fp32"
    """The usual format."""
    BF16 = "bf16"
    """Half the memory of the moments; the update rounds them."""


def _auto_or_fraction(value: Any) -> float | Auto:
    """Check that the value is a number from 0 to 1, or `auto`."""
    if value == AUTO and isinstance(value, str):
        return AUTO
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    rule = f"must be a number from 0 to 1, or auto, not {shown(value)}."
    raise broken(rule, "Write a number such as 0.5, or auto.", SpecCode.TYPE)


def _auto_or_count(value: Any) -> int | Auto:
    """Check that the value is an integer from 0, or `auto`."""
    if value == AUTO and isinstance(value, str):
        return AUTO
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    rule = f"must be a number of layers, or auto, not {shown(value)}."
    raise broken(rule, "Write a number such as 4, or auto.", SpecCode.TYPE)


AutoFraction = Annotated[
    float | Auto,
    PlainValidator(_auto_or_fraction),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"const": AUTO}]}),
]
AutoCount = Annotated[
    int | Auto,
    PlainValidator(_auto_or_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": AUTO}]}),
]


class PerformanceSpec(SpecModel):
    """Options that change speed and memory and, except for rounding, not the result.

    `auto` leaves an option to the planner, which switches on what the engine, the layout and the
    GPU allow.
    """

    gradient_overlap: AutoFlag = AUTO
    """True to reduce gradients between model replicas while the backward pass continues."""
    parameter_overlap: AutoFlag = AUTO
    """True to gather updated weights from the model replicas while the forward pass continues."""
    tensor_overlap: AutoFlag = AUTO
    """True to split matrix multiplications so that tensor-parallel communication overlaps them."""
    pipeline_overlap: AutoFlag = AUTO
    """True to compute while activations are sent between stages; needs several chunks."""
    expert_overlap: AutoFlag = AUTO
    """True to compute one micro-batch while the tokens of another are sent to their experts."""
    shared_expert_overlap: AutoFlag = AUTO
    """True to compute the shared experts while tokens are sent to the routed experts."""
    token_dispatcher: TokenDispatcher = TokenDispatcher.AUTO
    """How tokens are sent to their experts."""
    grouped_experts: AutoFlag = AUTO
    """True to compute all experts of a rank in one kernel instead of one kernel per expert."""
    fused_routing: AutoFlag = AUTO
    """True to sort tokens by expert in one kernel."""
    fused_loss: AutoFlag = AUTO
    """True to compute the loss of the logits in one kernel."""
    fused_layers: AutoFlag = AUTO
    """True to fuse biases, activations, dropout, rotary embeddings and gradient accumulation."""
    cuda_graphs: CudaGraphs = CudaGraphs.AUTO
    """Which parts of a step are recorded as CUDA graphs."""
    moments: MomentPrecision = MomentPrecision.AUTO
    """Number format of the optimizer's two moments."""
    optimizer_offload: AutoFraction = AUTO
    """Fraction of the optimizer state that is kept and updated in the host's memory."""
    activation_offload: AutoCount = AUTO
    """Number of layers on each rank whose activations are kept in the host's memory."""
