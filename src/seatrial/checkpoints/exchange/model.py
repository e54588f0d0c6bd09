# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A model as both sides know it: what the engine's arguments and a config.json both say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seatrial.codes.exchange import ExchangeCode, refusal


class HubClass(StrEnum):
    """The classes of Hugging Face's transformers that weights can go to and come from."""

    LLAMA = "LlamaForCausalLM"
    """Rotary positions, RMSNorm, SwiGLU; grouped heads, biases and tied embeddings if wanted."""
    GPT2 = "GPT2LMHeadModel"
    """Learned positions, LayerNorm, GELU, biases."""
    MIXTRAL = "MixtralForCausalLM"
    """As Llama without biases, with experts in every layer."""
    MPT = "MptForCausalLM"
    """ALiBi, LayerNorm and linear layers without biases, GELU."""


class HubActivation(StrEnum):
    """The non-linearity, by Hugging Face's name."""

    SILU = "silu"
    """The gate of SwiGLU."""
    GELU = "gelu"
    """GELU by the error function."""
    GELU_TANH = "gelu_new"
    """GELU by its approximation with tanh."""


@dataclass(frozen=True, slots=True)
class HubModel:
    """Every fact about a model that one side must tell the other."""

    kind: HubClass
    """The class that has its parts."""
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
    """Width of one head."""
    vocab_size: int
    """Entries of the tokenizer: rows of the embedding without padding."""
    max_positions: int
    """Longest sequence; rows of the table where positions are learned."""
    norm_epsilon: float
    """What the norms add under the root."""
    activation: HubActivation
    """The non-linearity."""
    biases: bool
    """Whether linear layers have biases."""
    tied_embeddings: bool
    """Whether the output projection is the input embedding."""
    rope_theta: float = 10000.0
    """Base of the rotary frequencies; no effect where positions are learned."""
    rope_scaling: float | None = None
    """Factor by which Llama 3.1 stretches the rotary frequencies; none where it does not."""
    experts: int = 0
    """Experts of a layer; 0 in a dense model."""
    top_k: int = 0
    """Experts that a token goes through."""
    aux_loss_coefficient: float = 0.0
    """Weight of the loss that keeps experts evenly used."""
    init_std: float = 0.02
    """Standard deviation of fresh weights."""
    clip_qkv: float | None = None
    """What queries, keys and values are clipped to; none where they are not."""
    softmax_scale: float | None = None
    """Factor of the attention scores; none for one over the root of the head's width."""

    @property
    def group(self) -> int:
        """Query heads that share one head of keys and values."""
        return self.heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class Plain:
    """An argument that must have its plain value, because no class knows another."""

    name: str
    """The engine's argument."""
    allowed: tuple[Any, ...]
    """The values that leave the model as the classes know it; absent is one of them."""
    what: str
    """What another value brings into the model."""


OFF = (None, False)
"""The plain values of a switch."""


def refuse_unless_plain(
    values: Mapping[str, Any], rules: Iterable[Plain], kind: HubClass, where: str, fix: str
) -> None:
    """Refuse arguments with a value that a class cannot express."""
    for rule in rules:
        value = values.get(rule.name)
        if not any(value is allowed or value == allowed for allowed in rule.allowed):
            said = f"{kind} has no {rule.what} ({rule.name} is {value!r})."
            raise refusal(ExchangeCode.NO_CLASS, where, said, fix, str(value))
