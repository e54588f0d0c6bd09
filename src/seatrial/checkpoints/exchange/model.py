# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The model parameters that both the engine's arguments and a config.json contain."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seatrial.codes.exchange import ExchangeCode, refusal


class HubClass(StrEnum):
    """The supported classes of Hugging Face transformers."""

    LLAMA = "LlamaForCausalLM"
    """Rotary positions, RMSNorm, SwiGLU; optionally grouped heads, biases and tied embeddings."""
    GPT2 = "GPT2LMHeadModel"
    """Learned positions, LayerNorm, GELU, biases."""
    MIXTRAL = "MixtralForCausalLM"
    """Like Llama without biases, with experts in every layer."""
    MPT = "MptForCausalLM"
    """ALiBi, LayerNorm and linear layers without biases, GELU."""


class HubActivation(StrEnum):
    """The activation function, under Hugging Face's name."""

    SILU = "silu"
    """The gate of SwiGLU."""
    GELU = "gelu"
    """Exact GELU, with the error function."""
    GELU_TANH = "gelu_new"
    """GELU with the tanh approximation."""


@dataclass(frozen=True, slots=True)
class HubModel:
    """The model parameters that both an export and an import need."""

    kind: HubClass
    """The transformers class."""
    layers: int
    hidden_size: int
    """Width of the residual stream."""
    ffn_hidden_size: int
    """Inner width of the feed-forward block, or of one expert."""
    heads: int
    """Number of query heads."""
    kv_heads: int
    """Number of key and value heads."""
    head_dim: int
    vocab_size: int
    """Size of the tokenizer's vocabulary: rows in the embedding without padding."""
    max_positions: int
    """Longest sequence; rows in the position table if positions are learned."""
    norm_epsilon: float
    activation: HubActivation
    biases: bool
    """True if linear layers have biases."""
    tied_embeddings: bool
    """True if input and output embeddings are shared."""
    rope_theta: float = 10000.0
    """Base of the rotary frequencies; unused if positions are learned."""
    rope_scaling: float | None = None
    """Llama 3.1's scaling factor of the rotary frequencies; None if not scaled."""
    experts: int = 0
    """Experts per layer; 0 for a dense model."""
    top_k: int = 0
    """Active experts per token."""
    aux_loss_coefficient: float = 0.0
    """Weight of the load-balancing loss."""
    init_std: float = 0.02
    """Standard deviation of the initial weights."""
    clip_qkv: float | None = None
    """Clipping limit of queries, keys and values; None if not clipped."""
    softmax_scale: float | None = None
    """Scale of the attention scores; None for the default, 1 / sqrt(head_dim)."""

    @property
    def group(self) -> int:
        """The number of query heads per key/value head."""
        return self.heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class Plain:
    """An argument that must have one of its plain values, because no class supports others."""

    name: str
    """The engine's argument."""
    allowed: tuple[Any, ...]
    """The values that the classes support, including None for a missing argument."""
    what: str
    """The feature that a different value adds to the model."""


OFF = (None, False)
"""The plain values of a flag."""


def refuse_unless_plain(
    values: Mapping[str, Any], rules: Iterable[Plain], kind: HubClass, where: str, fix: str
) -> None:
    """Reject arguments whose value a class does not support."""
    for rule in rules:
        value = values.get(rule.name)
        if not any(value is allowed or value == allowed for allowed in rule.allowed):
            said = f"{kind} does not support {rule.what} ({rule.name} is {value!r})."
            raise refusal(ExchangeCode.NO_CLASS, where, said, fix, str(value))
