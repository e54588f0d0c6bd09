# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The number of parameters on each rank."""

from dataclasses import dataclass

from seatrial.planning.layout import Layout
from seatrial.planning.stages import Stage
from seatrial.spec.model import Activation, Architecture, Norm, Positions


def padded_vocab_size(vocab_size: int, tp_size: int, multiple: int) -> int:
    """Return the vocabulary size, padded to a multiple of `multiple` on each tp rank."""
    step = multiple * tp_size
    return -(-vocab_size // step) * step


@dataclass(frozen=True, slots=True)
class ParameterSharding:
    """The number of ranks that split each kind of matrix."""

    tp_size: int = 1
    """Attention, dense feed-forward blocks and embeddings."""
    ep_size: int = 1
    """The experts of a layer."""
    etp_size: int = 1
    """The matrices of one expert."""


def layer_parameters(model: Architecture, layer: int, sharding: ParameterSharding) -> int:
    """Return the parameters of a layer on one rank."""
    norms = 2 * _norm_parameters(model, model.hidden_size)
    moe = model.moe
    if moe is None or layer < moe.dense_layers:
        block = _feed_forward(model, model.ffn_hidden_size, sharding.tp_size)
    else:
        router = model.hidden_size * moe.experts
        expert = _feed_forward(model, moe.expert_ffn_hidden_size, sharding.etp_size)
        shared = moe.shared_expert_ffn_hidden_size
        block = router + moe.experts // sharding.ep_size * expert
        block += _feed_forward(model, shared, sharding.tp_size) if shared else 0
    return norms + _attention(model, sharding.tp_size) + block


def _norm_parameters(model: Architecture, width: int) -> int:
    """Return the parameters of a norm: its weight, and its bias if it has one."""
    return 2 * width if model.norm is Norm.LAYERNORM else width


def _attention(model: Architecture, tp_size: int) -> int:
    """Return the parameters of the query, key, value and output projections."""
    hidden, queries = model.hidden_size, model.heads * model.head_dim
    inner = queries + 2 * model.kv_heads * model.head_dim
    parameters = (hidden * inner + queries * hidden) // tp_size
    if model.linear_bias or model.qkv_bias:
        parameters += inner // tp_size
    if model.linear_bias:
        parameters += hidden
    if model.qk_norm:
        parameters += 2 * _norm_parameters(model, model.head_dim)
    return parameters


def _feed_forward(model: Architecture, width: int, tp_size: int) -> int:
    """Return the parameters of a feed-forward block, or of one expert, with an inner width."""
    up = 2 * width if model.activation is Activation.SWIGLU else width
    parameters = (model.hidden_size * up + width * model.hidden_size) // tp_size
    if model.linear_bias:
        parameters += up // tp_size + model.hidden_size
    return parameters


def input_parameters(model: Architecture, padded_vocab: int, tp_size: int = 1) -> int:
    """Return the parameters of the embeddings on the first stage: words and learned positions."""
    words = padded_vocab // tp_size * model.hidden_size
    learned = model.positions is Positions.LEARNED
    return words + (model.max_positions * model.hidden_size if learned else 0)


def total_parameters(model: Architecture, padded_vocab: int) -> int:
    """Return the parameters of the whole model, each counted once."""
    whole = ParameterSharding()
    layers = sum(layer_parameters(model, layer, whole) for layer in range(model.layers))
    output = 0 if model.tied_embeddings else padded_vocab * model.hidden_size
    final_norm = _norm_parameters(model, model.hidden_size)
    return layers + input_parameters(model, padded_vocab) + final_norm + output


def active_parameters(model: Architecture, padded_vocab: int) -> int:
    """Return the parameters that one token uses, with only `top_k` of the routed experts."""
    total = total_parameters(model, padded_vocab)
    if model.moe is None:
        return total
    idle = model.moe.experts - model.moe.top_k
    expert = _feed_forward(model, model.moe.expert_ffn_hidden_size, 1)
    return total - (model.layers - model.moe.dense_layers) * idle * expert


def rank_parameters(model: Architecture, padded_vocab: int, layout: Layout, stage: Stage) -> int:
    """Return the parameters on one rank of a stage, as the engine reports them.

    With tied embeddings, the last of several stages has a copy of the word embeddings.
    """
    sharding = ParameterSharding(layout.tp_size, layout.ep_size, layout.etp_size)
    parameters = sum(layer_parameters(model, layer, sharding) for layer in stage.layers)
    first, last = stage.index == 0, stage.index == layout.pp_size - 1
    if first:
        parameters += input_parameters(model, padded_vocab, layout.tp_size)
    if last:
        parameters += _norm_parameters(model, model.hidden_size)
        if not (model.tied_embeddings and first):
            parameters += padded_vocab // layout.tp_size * model.hidden_size
    return parameters
