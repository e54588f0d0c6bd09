# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parallelism section: how a model is distributed over ranks, as numbers or `auto`."""

from enum import StrEnum
from math import prod

from pydantic import ValidationInfo, field_validator

from seatrial.spec.base import SpecModel, added_later, broken
from seatrial.spec.pipeline_layout import LayoutError, parse_layout
from seatrial.spec.scalars import AUTO, AutoFlag, AutoInt, PositiveInt


class Sharding(StrEnum):
    """Which state is sharded over the data-parallel ranks instead of replicated on each rank."""

    AUTO = "auto"
    """The planner decides."""
    NONE = "none"
    """No sharding: every rank keeps all weights, gradients and optimizer state of its part."""
    OPTIMIZER = "optimizer"
    """The optimizer state (Megatron's distributed optimizer, ZeRO-1)."""
    FSDP = "fsdp"
    """Weights, gradients and optimizer state (fully sharded data parallel, ZeRO-3)."""


class Recompute(StrEnum):
    """Which activations are recomputed in the backward pass instead of stored."""

    AUTO = "auto"
    """The planner decides."""
    NONE = "none"
    """No recomputation: fastest, most memory."""
    SELECTIVE = "selective"
    """Core attention only: saves much memory at little cost in time."""
    FULL = "full"
    """Every layer: least memory, about a third more time."""


class RecomputeModule(StrEnum):
    """Parts of a layer that `selective` can recompute, by Megatron's names."""

    CORE_ATTENTION = "core_attn"
    """Core attention; saves no memory if a fused kernel does not store the scores."""
    LAYERNORM = "layernorm"
    """The norm before the experts, whose output is not stored."""
    MLP = "mlp"
    """The feed-forward block of dense layers."""
    MOE = "moe"
    """The whole mixture-of-experts block, including shared experts."""
    MOE_ACT = "moe_act"
    """The activation inside the experts."""
    SHARED_EXPERTS = "shared_experts"
    """The shared experts."""
    MLA_UP_PROJ = "mla_up_proj"
    """The up projections of multi-latent attention."""


STAGE_FIELDS = ("first_stage_layers", "last_stage_layers", "embedding_as_layer", "loss_as_layer")
"""Fields that shift layers between otherwise equal stages."""


class ParallelismSpec(SpecModel):
    """The parallel degrees; the data-parallel size follows from them and the world size."""

    tp_size: AutoInt = AUTO
    """Tensor-parallel size: ranks that split the matrices of each layer."""
    pp_size: AutoInt = AUTO
    """Pipeline-parallel size: number of pipeline stages."""
    vp_size: AutoInt = AUTO
    """Layer chunks per pipeline stage (interleaved schedule); 1 for no interleaving."""
    cp_size: AutoInt = AUTO
    """Context-parallel size: ranks that split each sequence."""
    ep_size: AutoInt = AUTO
    """Expert-parallel size: ranks that split the experts; 1 for a dense model."""
    etp_size: PositiveInt = 1
    """Expert tensor-parallel size; defaults to 1, unlike Megatron's default of `tp_size`."""
    first_stage_layers: PositiveInt | None = None
    """Number of layers in the first pipeline stage, for uneven stages."""
    last_stage_layers: PositiveInt | None = None
    """Number of layers in the last pipeline stage, for uneven stages."""
    embedding_as_layer: bool = False
    """True to count the embedding as a layer, so that the first chunk has one layer fewer."""
    loss_as_layer: bool = False
    """True to count output and loss as one layer, so that the last chunk has one layer fewer."""
    pipeline_layout: str | None = added_later()
    """The content of every stage in Megatron's notation, such as `Et*3|(tt|)*29,m|L`."""
    sequence_parallel: AutoFlag = AUTO
    """True to split norms and dropout along the sequence over the tensor-parallel ranks."""
    sharding: Sharding = Sharding.AUTO
    """Which state is sharded over the data-parallel ranks."""
    recompute: Recompute = Recompute.AUTO
    """Which activations are recomputed instead of stored."""
    recompute_modules: tuple[RecomputeModule, ...] = ()
    """Modules that `recompute: selective` covers; if empty, core attention."""

    @field_validator("recompute_modules")
    @classmethod
    def _needs_selective(
        cls, value: tuple[RecomputeModule, ...], info: ValidationInfo
    ) -> tuple[RecomputeModule, ...]:
        recompute = info.data.get("recompute")
        if value and recompute is not None and recompute is not Recompute.SELECTIVE:
            raise broken(
                "recompute_modules applies only to recompute: selective, but recompute is "
                f"{recompute}.",
                "Use recompute: selective, or remove recompute_modules.",
            )
        return value

    @field_validator("embedding_as_layer", "loss_as_layer")
    @classmethod
    def _excludes_own_numbers(cls, value: bool, info: ValidationInfo) -> bool:
        for name in ("first_stage_layers", "last_stage_layers"):
            if value and info.data.get(name) is not None:
                raise broken(
                    f"{name} sets the number of layers in a stage, so the embedding and the loss "
                    "cannot count as layers.",
                    f"Use false, or remove {name}.",
                )
        return value

    @field_validator("pipeline_layout")
    @classmethod
    def _describes_all_stages(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        for name in STAGE_FIELDS:
            if info.data.get(name):
                raise broken(
                    f"a custom layout sets the layers of every stage, so {name} has no effect.",
                    f"Remove {name}, or pipeline_layout.",
                )
        try:
            stages = len(parse_layout(value).stages)
        except LayoutError as error:
            raise broken(error.rule, error.fix) from None
        given = [(name, info.data.get(name)) for name in ("pp_size", "vp_size")]
        sizes = [(name, size) for name, size in given if isinstance(size, int)]
        product = prod(size for _, size in sizes)
        if stages % product or (len(sizes) == 2 and stages != product):
            words = " × ".join(f"{name} {size}" for name, size in sizes)
            raise broken(
                f"the layout has {stages} stages, which is not "
                f"{'equal to' if len(sizes) == 2 else 'divisible by'} {words}.",
                "Use a layout with one | fewer than pp_size × vp_size, or set vp_size to auto.",
            )
        return value

    @field_validator("sequence_parallel")
    @classmethod
    def _needs_tensor_parallel(cls, value: bool | str, info: ValidationInfo) -> bool | str:
        if value is True and info.data.get("tp_size") == 1:
            raise broken(
                "sequence parallelism splits over the tensor-parallel ranks, but tp_size is 1.",
                "Use false, or set tp_size above 1.",
            )
        return value
