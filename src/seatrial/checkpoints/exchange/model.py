# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The facts about a model that both the engine's arguments and a config.json contain."""

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
    """The activation function, by Hugging Face's name."""

    SILU = "silu"
    """The gate of SwiGLU."""
    GELU = "gelu"
    """Exact GELU, with the error function."""
    GELU_TANH = "gelu_new"
    """GELU with the tanh approximation."""


@dataclass(frozen=True, slots=True)
class HubModel:
    """All facts about a model that both sides need."""

    kind: HubClass
    """The transformers class."""
    layers: int
    hidden_size: int
    """Width of the residual stream."""
    ffn_hidden_size: int
    """Inner width of the feed-forward block, or of one expert."""
    heads: int
    """Attention heads for queries."""
    kv_heads: int
    """Attention heads for keys and values."""
    head_dim: int
    vocab_size: int
    """Entries of the tokenizer: rows of the embedding without padding."""
    max_positions: int
    """Longest sequence; rows of the table if positions are learned."""
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
    """An argument that must have its plain value, because no class supports another."""

    name: str
    """The engine's argument."""
    allowed: tuple[Any, ...]
    """The values that the classes support, including None for an absent argument."""
    what: str
    """The feature that another value adds to the model."""


OFF = (None, False)
"""The plain values of a flag."""


def refuse_unless_plain(
    values: Mapping[str, Any], rules: Iterable[Plain], kind: HubClass, where: str, fix: str
) -> None:
    """Reject arguments with a value that a class cannot express."""
    for rule in rules:
        value = values.get(rule.name)
        if not any(value is allowed or value == allowed for allowed in rule.allowed):
            said = f"{kind} has no {rule.what} ({rule.name} is {value!r})."
            raise refusal(ExchangeCode.NO_CLASS, where, said, fix, str(value))
