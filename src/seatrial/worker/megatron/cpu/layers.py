# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Layers for CPU, passed to the engine through its own `--spec`.

The engine's local layers (without Transformer Engine) train on CPU, but some of them lack a feature
of their GPU counterparts:

- The norm does not support sequence parallelism, or weights that are stored minus 1.
- The core attention does not support context parallelism, or values of a different width than keys,
  and does not mark its sinks as split over the tensor-parallel ranks.
- Latent attention splits projections that Transformer Engine duplicates on every tensor-parallel
  rank, and has no norm before a query projection without a compressed vector.
- The expert dispatcher needs split sizes on the host, and experts add their bias in place.
- Layers for multi-token prediction are built from the engine's own parts only.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from megatron.core.dist_checkpointing.utils import apply_prefix_mapping
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
    get_gpt_decoder_layer_specs,
    get_gpt_mtp_block_spec,
)
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.tensor_parallel.layers import ColumnParallelLinear
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.moe.moe_layer import MoELayer
from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher
from megatron.core.transformer.multi_latent_attention import MLASelfAttention
from megatron.core.transformer.torch_norm import WrappedTorchNorm


def norm(config: Any, hidden_size: int, eps: float = 1e-5, **kwargs: Any) -> torch.nn.Module:
    """Return torch's norm, marked so that the engine reduces its gradients over the tp ranks."""
    plain = copy.copy(config)
    plain.sequence_parallel = plain.layernorm_zero_centered_gamma = False
    module: torch.nn.Module = WrappedTorchNorm(plain, hidden_size, eps=eps, **kwargs)
    if config.layernorm_zero_centered_gamma:
        module = NormCenteredAtOne(module)
    for parameter in module.parameters():
        mark_sequence_parallel(parameter, config.sequence_parallel)
    return module


class NormCenteredAtOne(torch.nn.Module):
    """A norm whose weight is stored minus 1."""

    def __init__(self, plain: torch.nn.Module) -> None:
        """Take the kind and the size from a norm with the usual weight."""
        super().__init__()
        self.shape, self.eps = plain.normalized_shape, plain.eps
        self.weight = torch.nn.Parameter(torch.zeros_like(plain.weight))
        has_bias = isinstance(plain, torch.nn.LayerNorm)
        self.bias = torch.nn.Parameter(torch.zeros_like(plain.weight)) if has_bias else None

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Normalise the last dimension."""
        if self.bias is None:
            return torch.nn.functional.rms_norm(states, self.shape, self.weight + 1, self.eps)
        return torch.nn.functional.layer_norm(
            states, self.shape, self.weight + 1, self.bias, self.eps
        )


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


def rows_before_window(length: int, cp_size: int, rank: int, window: int) -> torch.Tensor:
    """Return this rank's rows of the mask of keys that are before a token's window.

    Args:
        length: The length of the whole sequence.
        cp_size: The number of context-parallel ranks.
        rank: This rank.
        window: How many tokens before the current one are in the window.
    """
    mine = rank_positions(length, cp_size, rank)
    return (torch.arange(length)[None, :] < mine[:, None] - window)[None, None]


class ContextParallelAttention(DotProductAttention):
    """The engine's attention, over keys and values gathered from the context-parallel ranks."""

    def __init__(
        self,
        config: Any,
        *args: Any,
        pg_collection: Any = None,
        k_channels: int | None = None,
        v_channels: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Build the base class without context parallelism and widths, which it rejects."""
        alone = copy.copy(config)
        alone.context_parallel_size = 1
        alone.perform_initialization = False
        kwargs["cp_comm_type"] = None
        super().__init__(alone, *args, pg_collection=pg_collection, **kwargs)
        self.config = config
        if pg_collection is None:
            pg_collection = ProcessGroupCollection.use_mpu_process_groups(["tp", "cp"])
        self.cp_group = pg_collection.cp
        if v_channels is not None:
            self.hidden_size_per_partition = self.num_attention_heads_per_partition * v_channels
        # The engine's mask of a window assumes that the queries are the end of the sequence.
        self.window = None
        if self.cp_group.size() > 1:
            self.window = self.scale_mask_softmax.window_size
            self.scale_mask_softmax.window_size = None
        if isinstance(self.softmax_offset, torch.nn.Parameter):
            self._split_sinks(self.softmax_offset)

    def _split_sinks(self, sinks: torch.nn.Parameter) -> None:
        """Mark the sinks as split, and draw those of all heads, so that they do not depend on tp.

        Without the marks, the engine leaves them out of the gradient norm on all but one rank.
        """
        for name, value in (
            ("tensor_model_parallel", True),
            ("partition_dim", 0),
            ("partition_stride", 1),
        ):
            setattr(sinks, name, value)
        if self.config.perform_initialization:
            whole = torch.empty(self.config.num_attention_heads, dtype=sinks.dtype)
            self.config.init_method(whole)
            sinks.data.copy_(whole.chunk(self.tp_group.size())[self.tp_group.rank()])

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Attend from this rank's tokens to the whole sequence."""
        cp_size, rank = self.cp_group.size(), self.cp_group.rank()
        if cp_size > 1:
            length = key.size(0) * cp_size
            order = sequence_order(length, cp_size)
            key, value = (self._whole(part, order) for part in (key, value))
            if attention_mask is None:
                attention_mask = causal_rows(length, cp_size, rank)
            if self.window is not None:
                before = rows_before_window(length, cp_size, rank, self.window[0])
                attention_mask = attention_mask | before
        output: torch.Tensor = super().forward(query, key, value, attention_mask, **kwargs)
        return output

    def _whole(self, part: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Gather a tensor for all tokens from the ranks' parts, in sequence order."""
        gathered: torch.Tensor = gather_from_sequence_parallel_region(
            part.contiguous(), group=self.cp_group
        )
        return gathered.index_select(0, order)


class DuplicatedLinear(torch.nn.Module):
    """A projection that every tensor-parallel rank has whole, as in Transformer Engine.

    The engine's local latent attention splits it and gathers the results. The gradient of the
    rotary keys is then that of one rank's heads only.
    """

    def __init__(
        self, input_size: int, output_size: int, *, config: Any, init_method: Any, **kwargs: Any
    ) -> None:
        """Accept the arguments of the engine's linear layers."""
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.empty(output_size, input_size, dtype=config.params_dtype)
        )
        if config.perform_initialization:
            init_method(self.weight)
        mark_sequence_parallel(self.weight, config.sequence_parallel)

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the projection, and no bias."""
        return torch.nn.functional.linear(states, self.weight), None


class NormedColumnParallelLinear(ColumnParallelLinear):
    """A norm and a split projection, as Transformer Engine fuses them."""

    def __init__(self, input_size: int, output_size: int, *, config: Any, **kwargs: Any) -> None:
        """Build the engine's projection, and a norm before it."""
        super().__init__(input_size, output_size, config=config, **kwargs)
        self.layer_norm = norm(config, input_size, config.layernorm_epsilon)

    def forward(self, states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Normalise the input, then project it."""
        return super().forward(self.layer_norm(states), *args, **kwargs)

    def sharded_state_dict(self, prefix: str = "", *args: Any, **kwargs: Any) -> Any:
        """Return the tensors under the names that Transformer Engine's layer gives them."""
        state = super().sharded_state_dict(prefix, *args, **kwargs)
        apply_prefix_mapping(state, {f"{prefix}layer_norm.": f"{prefix}layer_norm_"})
        return state


class CpuLatentAttention(MLASelfAttention):
    """The engine's latent attention with the parts that Transformer Engine's has."""

    def _resolve_qk_norm_config(self, submodules: Any) -> dict[str, Any]:
        return {
            "linear_q_proj": NormedColumnParallelLinear,
            "linear_q_up_proj": ColumnParallelLinear,
            "linear_kv_up_proj": ColumnParallelLinear,
            "q_layernorm": norm,
            "kv_layernorm": norm,
        }


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
        for expert in self.experts.local_experts if self.config.add_bias_linear else ():
            # The engine adds an expert's bias in place to a view, which autograd rejects.
            expert.linear_fc2.register_forward_hook(_copy_output)
            # The gradient is already reduced over the tensor-parallel ranks, like all of an expert.
            mark_sequence_parallel(expert.linear_fc2.bias, False)


def _copy_output(module: Any, inputs: Any, output: tuple[torch.Tensor, Any]) -> Any:
    return output[0].clone(), *output[1:]


Replace = Callable[[Any, Any], None]
"""Replaces parts of one layer's spec; the second argument is the model's configuration."""


def gpt_spec(config: Any, vp_stage: int | None = None) -> Any:
    """Return the engine's block of local layers, with some parts replaced."""
    return block_spec(config, vp_stage, _replace_parts, norm)


def block_spec(config: Any, vp_stage: int | None, replace_parts: Replace, own_norm: Any) -> Any:
    """Return the engine's block of local layers, with replaced parts and norm."""
    block = get_gpt_decoder_block_spec(
        config.transformer, use_transformer_engine=False, vp_stage=vp_stage, **_norms(config)
    )
    for layer in {id(spec): spec for spec in block.layer_specs}.values():
        replace_parts(layer, config.transformer)
    block.layer_norm = own_norm
    return block


def _norms(config: Any) -> dict[str, Any]:
    model = config.transformer
    return {"normalization": model.normalization, "qk_l2_norm": model.qk_l2_norm}


def _replace_parts(layer: Any, model: Any) -> None:
    """Replace the parts of one layer's spec that lack a feature."""
    parts = layer.submodules
    parts.input_layernorm = parts.pre_mlp_layernorm = norm
    attention = parts.self_attention.submodules
    attention.core_attention = ContextParallelAttention
    if model.multi_latent_attention:
        parts.self_attention.module = CpuLatentAttention
        attention.linear_q_down_proj = attention.linear_kv_down_proj = DuplicatedLinear
    elif model.qk_layernorm:
        attention.q_layernorm = attention.k_layernorm = norm
    if getattr(parts.mlp, "func", None) is MoELayer:
        parts.mlp = partial(HostSplitMoELayer, *parts.mlp.args, **parts.mlp.keywords)


def prediction_spec(config: Any, layers: Any, vp_stage: int | None = None) -> Any:
    """Return the engine's block for multi-token prediction, with the same parts replaced."""
    return prediction_block_spec(config, vp_stage, _replace_parts, norm)


def prediction_block_spec(
    config: Any, vp_stage: int | None, replace_parts: Replace, own_norm: Any
) -> Any:
    """Return the engine's block for multi-token prediction, with replaced parts and norm."""
    model = config.transformer
    if model.mtp_num_layers is None:
        return None
    last = get_gpt_decoder_layer_specs(
        model, use_transformer_engine=False, vp_stage=vp_stage, **_norms(config)
    )[-1]
    replace_parts(last, model)
    block = get_gpt_mtp_block_spec(model, last, use_transformer_engine=False, vp_stage=vp_stage)
    for layer in block.layer_specs if block else ():
        parts = layer.submodules
        parts.enorm = parts.hnorm = parts.layer_norm = own_norm
    return block
