# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parallelism section: how one model is spread over many ranks; numbers, or `auto`."""

from enum import StrEnum

from pydantic import ValidationInfo, field_validator

from seatrial.spec.base import SpecModel, broken
from seatrial.spec.scalars import AUTO, AutoFlag, AutoInt, PositiveInt


class Sharding(StrEnum):
    """What the data-parallel ranks share out among them instead of each holding all of it."""

    AUTO = "auto"
    """The planner decides."""
    NONE = "none"
    """Nothing: every rank holds weights, gradients and optimizer state of its part."""
    OPTIMIZER = "optimizer"
    """The optimizer state (Megatron's distributed optimizer, ZeRO-1)."""
    FSDP = "fsdp"
    """Weights, gradients and optimizer state (fully sharded data parallel, ZeRO-3)."""


class Recompute(StrEnum):
    """Activations that are computed again in the backward pass instead of being kept."""

    AUTO = "auto"
    """The planner decides."""
    NONE = "none"
    """None: fastest, most memory."""
    SELECTIVE = "selective"
    """The attention's inner part only: little time, much memory."""
    FULL = "full"
    """Every layer: about a third more time, least memory."""


class RecomputeModule(StrEnum):
    """Parts of a layer that `selective` can compute again, by Megatron's names."""

    CORE_ATTENTION = "core_attn"
    """The attention's inner part; nothing is gained where a fused kernel keeps no scores."""
    LAYERNORM = "layernorm"
    """The norm before the experts, whose output is not kept."""
    MLP = "mlp"
    """The feed-forward part of layers without experts."""
    MOE = "moe"
    """The whole part with experts, shared ones included."""
    MOE_ACT = "moe_act"
    """The activation inside the experts."""
    SHARED_EXPERTS = "shared_experts"
    """The shared experts."""
    MLA_UP_PROJ = "mla_up_proj"
    """The up projections of multi-latent attention."""


class ParallelismSpec(SpecModel):
    """The parallel degrees; the data-parallel size follows from them and the world size."""

    tp_size: AutoInt = AUTO
    """Ranks that share each layer's matrices (tensor parallel)."""
    pp_size: AutoInt = AUTO
    """Pipeline stages."""
    vp_size: AutoInt = AUTO
    """Chunks of layers per pipeline stage (interleaved schedule); 1 for the plain schedule."""
    cp_size: AutoInt = AUTO
    """Ranks that share each sequence (context parallel)."""
    ep_size: AutoInt = AUTO
    """Ranks that share the experts (expert parallel); 1 in a dense model."""
    etp_size: PositiveInt = 1
    """Ranks that share one expert's matrices; unlike Megatron's default, not `tp_size`."""
    first_stage_layers: PositiveInt | None = None
    """Layers of the first pipeline stage when stages are uneven."""
    last_stage_layers: PositiveInt | None = None
    """Layers of the last pipeline stage when stages are uneven."""
    embedding_as_layer: bool = False
    """Whether the embedding counts as a layer, so that the first chunk has one layer less."""
    loss_as_layer: bool = False
    """Whether output and loss count as a layer, so that the last chunk has one layer less."""
    sequence_parallel: AutoFlag = AUTO
    """Whether norms and dropout are split along the sequence over the tensor-parallel ranks."""
    sharding: Sharding = Sharding.AUTO
    """What the data-parallel ranks share out among them."""
    recompute: Recompute = Recompute.AUTO
    """Activations that are computed again instead of being kept."""
    recompute_modules: tuple[RecomputeModule, ...] = ()
    """Parts that `recompute: selective` covers; empty: the attention's inner part."""

    @field_validator("recompute_modules")
    @classmethod
    def _needs_selective(
        cls, value: tuple[RecomputeModule, ...], info: ValidationInfo
    ) -> tuple[RecomputeModule, ...]:
        recompute = info.data.get("recompute")
        if value and recompute is not None and recompute is not Recompute.SELECTIVE:
            raise broken(
                f"it says what selective recomputing covers, and recompute is {recompute}.",
                "Use recompute: selective, or remove it.",
            )
        return value

    @field_validator("embedding_as_layer", "loss_as_layer")
    @classmethod
    def _excludes_own_numbers(cls, value: bool, info: ValidationInfo) -> bool:
        for name in ("first_stage_layers", "last_stage_layers"):
            if value and info.data.get(name) is not None:
                raise broken(
                    f"{name} gives a stage its own number of layers, so nothing can be counted in.",
                    f"Use false, or remove {name}.",
                )
        return value

    @field_validator("sequence_parallel")
    @classmethod
    def _needs_tensor_parallel(cls, value: bool | str, info: ValidationInfo) -> bool | str:
        if value is True and info.data.get("tp_size") == 1:
            raise broken(
                "sequence parallelism splits over the tensor-parallel ranks, and tp_size is 1.",
                "Use false, or a tp_size above 1.",
            )
        return value
