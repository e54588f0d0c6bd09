# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's layers with stand-ins for kernels, passed to the engine through its own `--spec`."""

from typing import Any

import torch
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.module import MegatronModule

from seatrial.worker.megatron.cpu.layers import (
    CpuLatentAttention,
    DuplicatedLinear,
    NormedColumnParallelLinear,
    block_spec,
    mark_sequence_parallel,
    prediction_block_spec,
)
from seatrial.worker.megatron.full_size.attention import (
    batch_first,
    offer_softmax,
    pad,
    separate,
    unfused_attention,
)
from seatrial.worker.megatron.full_size.kernels import Attention, Choices, Flash, FusedNorm


class CountedNorm(torch.nn.Module):
    """LayerNorm or RMSNorm."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__()
        names = ("weight", "bias") if config.normalization == "LayerNorm" else ("weight",)
        for name in names:
            parameter = torch.nn.Parameter(torch.empty(hidden_size, dtype=config.params_dtype))
            mark_sequence_parallel(parameter, config.sequence_parallel)
            self.register_parameter(name, parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = FusedNorm.apply(x, *self.parameters())
        return output


class CountedAttention(MegatronModule):  # type: ignore[misc]
    """Core attention in place of Transformer Engine's."""

    def __init__(
        self,
        config: Any,
        layer_number: int,
        *_: Any,
        pg_collection: Any = None,
        v_channels: int | None = None,
        **__: Any,
    ) -> None:
        super().__init__(config=config)
        groups = pg_collection or ProcessGroupCollection.use_mpu_process_groups(["tp", "cp"])
        self.cp_group = groups.cp
        self.window = _window(config, layer_number)
        self.dropout = config.attention_dropout
        self.value_size = v_channels or config.kv_channels

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
    ) -> torch.Tensor:
        query, key, value = separate(query, key, value)
        if Choices.attention is Attention.UNFUSED:
            return unfused_attention(query, key, value, self.dropout)
        is_flash = Choices.attention is Attention.FLASH
        if is_flash:
            query, key, value = pad(*map(batch_first, (query, key, value)))
        output: torch.Tensor = Flash.apply(query, key, value, self.cp_group, self.window)
        if is_flash and output.shape[1] > 1:
            output = output.clone()
        return output[..., : self.value_size].reshape(*output.shape[:2], -1)


def _window(config: Any, layer_number: int) -> int | None:
    """Return the sliding window of a layer in tokens; None without one."""
    window, skipped = config.window_size, getattr(config, "window_attn_skip_freq", None)
    if window is None:
        return None
    if isinstance(skipped, int) and skipped and layer_number % skipped == 0:
        return None
    if isinstance(skipped, list) and not skipped[layer_number - 1]:
        return None
    return int(window[0]) + 1 if window[0] >= 0 else None


class CountedLatentAttention(CpuLatentAttention):
    """Latent attention with the parts that Transformer Engine's has."""

    def _resolve_qk_norm_config(self, submodules: Any) -> dict[str, Any]:
        parts: dict[str, Any] = super()._resolve_qk_norm_config(submodules)
        own: dict[str, Any] = {
            "linear_q_proj": CountedNormedLinear,
            "q_layernorm": CountedNorm,
            "kv_layernorm": CountedNorm,
        }
        return parts | own


class CountedNormedLinear(NormedColumnParallelLinear):
    """A norm and a split projection."""

    def __init__(self, input_size: int, output_size: int, *, config: Any, **kwargs: Any) -> None:
        super().__init__(input_size, output_size, config=config, **kwargs)
        self.layer_norm = CountedNorm(config, input_size, config.layernorm_epsilon)


def gpt_spec(config: Any, vp_stage: int | None = None) -> Any:
    """Return the engine's block of local layers, with stand-ins for kernels."""
    return block_spec(config, vp_stage, _replace_parts, CountedNorm)


def prediction_spec(config: Any, layers: Any, vp_stage: int | None = None) -> Any:
    """Return the engine's block for multi-token prediction, with the same stand-ins."""
    return prediction_block_spec(config, vp_stage, _replace_parts, CountedNorm)


def _replace_parts(layer: Any, model: Any) -> None:
    """Replace norms and core attention of one layer's spec."""
    parts = layer.submodules
    parts.input_layernorm = parts.pre_mlp_layernorm = CountedNorm
    attention = parts.self_attention.submodules
    if Choices.attention is Attention.LOCAL:
        offer_softmax()
    else:
        attention.core_attention = CountedAttention
    if model.multi_latent_attention:
        parts.self_attention.module = CountedLatentAttention
        attention.linear_q_down_proj = attention.linear_kv_down_proj = DuplicatedLinear
    elif model.qk_layernorm:
        attention.q_layernorm = attention.k_layernorm = CountedNorm
