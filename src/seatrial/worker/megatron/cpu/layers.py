# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Layers for CPU, passed to the engine through its own `--spec`.

The engine's local layers (without Transformer Engine) train on CPU, but three of them lack a
feature of their GPU counterparts: the norm does not support sequence parallelism, the core
attention does not support context parallelism, and the expert dispatcher needs split sizes on the
host.
"""

import copy
from functools import partial
from typing import Any

import torch
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.moe.moe_layer import MoELayer
from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher
from megatron.core.transformer.torch_norm import WrappedTorchNorm


def norm(config: Any, hidden_size: int, eps: float = 1e-5, **kwargs: Any) -> torch.nn.Module:
    """Return torch's norm, marked so that the engine reduces its gradients over the tp ranks."""
    plain = copy.copy(config)
    plain.sequence_parallel = False
    module: torch.nn.Module = WrappedTorchNorm(plain, hidden_size, eps=eps, **kwargs)
    for parameter in module.parameters():
        mark_sequence_parallel(parameter, config.sequence_parallel)
    return module


def mark_sequence_parallel(parameter: torch.nn.Parameter, split: bool) -> None:
    """Mark whether a replicated parameter sees only its rank's part of the sequence."""
    parameter.sequence_parallel = split  # type: ignore[attr-defined]


def rank_positions(length: int, cp_size: int, rank: int) -> torch.Tensor:
    """Return the token positions of a context-parallel rank: chunks rank and 2cp-1-rank of 2cp."""
    chunk = length // (2 * cp_size)
    starts = (rank * chunk, (2 * cp_size - 1 - rank) * chunk)
    return torch.cat([torch.arange(start, start + chunk) for start in starts])


def sequence_order(length: int, cp_size: int) -> torch.Tensor:
    """Return the index that restores the sequence order of keys gathered from all ranks."""
    gathered = torch.cat([rank_positions(length, cp_size, rank) for rank in range(cp_size)])
    return torch.argsort(gathered)


def causal_rows(length: int, cp_size: int, rank: int) -> torch.Tensor:
    """Return this rank's rows of the causal mask, over keys in sequence order."""
    mine = rank_positions(length, cp_size, rank)
    return (torch.arange(length)[None, :] > mine[:, None])[None, None]


class ContextParallelAttention(DotProductAttention):
    """The engine's attention, over keys and values gathered from the context-parallel ranks."""

    def __init__(self, config: Any, *args: Any, pg_collection: Any = None, **kwargs: Any) -> None:
        """Build the base class without context parallelism, which it rejects."""
        alone = copy.copy(config)
        alone.context_parallel_size = 1
        kwargs["cp_comm_type"] = None
        super().__init__(alone, *args, pg_collection=pg_collection, **kwargs)
        self.config = config
        if pg_collection is None:
            pg_collection = ProcessGroupCollection.use_mpu_process_groups(["tp", "cp"])
        self.cp_group = pg_collection.cp

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Attend from this rank's tokens to the whole sequence."""
        cp_size = self.cp_group.size()
        if cp_size > 1:
            length = key.size(0) * cp_size
            order = sequence_order(length, cp_size)
            key, value = (self._whole(part, order) for part in (key, value))
            if attention_mask is None:
                attention_mask = causal_rows(length, cp_size, self.cp_group.rank())
        output: torch.Tensor = super().forward(query, key, value, attention_mask, **kwargs)
        return output

    def _whole(self, part: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Gather a tensor for all tokens from the ranks' parts, in sequence order."""
        gathered: torch.Tensor = gather_from_sequence_parallel_region(
            part.contiguous(), group=self.cp_group
        )
        return gathered.index_select(0, order)


class HostSplitDispatcher(MoEAlltoAllTokenDispatcher):
    """The engine's dispatcher with split sizes as arrays.

    On a GPU, the engine copies the split sizes to the host as arrays. A CPU tensor is already on
    the host and stays a tensor, which gloo's all-to-all rejects.
    """

    def _maybe_dtoh_and_synchronize(self, point: str, tokens_per_expert: Any = None) -> Any:
        result = super()._maybe_dtoh_and_synchronize(point, tokens_per_expert)
        if point == self.cuda_dtoh_point:
            for name in ("input_splits", "output_splits", "output_splits_tp"):
                sizes = getattr(self, name)
                if isinstance(sizes, torch.Tensor):
                    setattr(self, name, sizes.numpy())
        return result


class HostSplitMoELayer(MoELayer):
    """The engine's expert layer with the dispatcher above."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Build the engine's layer, then replace its dispatcher."""
        super().__init__(*args, **kwargs)
        if type(self.token_dispatcher) is MoEAlltoAllTokenDispatcher:
            self.token_dispatcher.__class__ = HostSplitDispatcher


def gpt_spec(config: Any, vp_stage: int | None = None) -> Any:
    """Return the engine's block of local layers, with three parts replaced."""
    model = config.transformer
    block = get_gpt_decoder_block_spec(
        model,
        use_transformer_engine=False,
        normalization=model.normalization,
        qk_l2_norm=model.qk_l2_norm,
        vp_stage=vp_stage,
    )
    for layer in {id(spec): spec for spec in block.layer_specs}.values():
        parts = layer.submodules
        parts.input_layernorm = parts.pre_mlp_layernorm = norm
        attention = parts.self_attention.submodules
        attention.core_attention = ContextParallelAttention
        if model.qk_layernorm:
            attention.q_layernorm = attention.k_layernorm = norm
        if getattr(parts.mlp, "func", None) is MoELayer:
            parts.mlp = partial(HostSplitMoELayer, *parts.mlp.args, **parts.mlp.keywords)
    block.layer_norm = norm
    return block
