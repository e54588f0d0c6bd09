# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The number of parameters on each rank."""

from dataclasses import dataclass

from seatrial.planning.layout import Layout
from seatrial.planning.stages import Stage
from seatrial.spec.model import Architecture, Norm, Positions
from seatrial.spec.model_parts import LatentAttention


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
    if moe is None or not moe.has_experts(layer):
        block = _feed_forward(model, model.ffn_hidden_size, sharding.tp_size)
    else:
        router = model.hidden_size * moe.experts + (moe.experts if model.linear_bias else 0)
        expert = _feed_forward(model, moe.expert_ffn_hidden_size, sharding.etp_size)
        shared = moe.shared_expert_ffn_hidden_size
        block = router + moe.experts // sharding.ep_size * expert
        block += _feed_forward(model, shared, sharding.tp_size) if shared else 0
    return norms + attention_parameters(model, sharding.tp_size) + block


def _norm_parameters(model: Architecture, width: int) -> int:
    """Return the parameters of a norm: its weight, and its bias if it has one."""
    return 2 * width if model.norm is Norm.LAYERNORM else width


def attention_parameters(model: Architecture, tp_size: int) -> int:
    """Return the parameters of the query, key, value and output projections on one rank."""
    sinks = model.heads // tp_size if model.attention_sinks else 0
    if model.latent_attention is not None:
        return sinks + _latent_attention(model, model.latent_attention, tp_size)
    hidden, queries = model.hidden_size, model.heads * model.head_dim
    inner = queries + 2 * model.kv_heads * model.head_dim
    parameters = (hidden * inner + queries * hidden) // tp_size + sinks
    if model.linear_bias or model.qkv_bias:
        parameters += inner // tp_size
    if model.linear_bias:
        parameters += hidden
    if model.qk_norm:
        parameters += 2 * _norm_parameters(model, model.head_dim)
    return parameters


def _latent_attention(model: Architecture, latent: LatentAttention, tp_size: int) -> int:
    """Return the parameters of multi-latent attention.

    Every tensor-parallel rank has the whole projections to the compressed vectors.
    """
    hidden, heads = model.hidden_size, model.heads // tp_size
    query = latent.qk_head_dim + latent.rope_head_dim
    if latent.q_rank is None:
        queries = hidden * heads * query + extra_query_norm(model)
    else:
        queries = latent.q_rank * (hidden + heads * query)
        queries += _norm_parameters(model, latent.q_rank)
    compressed = hidden * (latent.kv_rank + latent.rope_head_dim)
    compressed += _norm_parameters(model, latent.kv_rank)
    keys_and_values = latent.kv_rank * heads * (latent.qk_head_dim + latent.value_head_dim)
    return queries + compressed + keys_and_values + heads * latent.value_head_dim * hidden


def extra_query_norm(model: Architecture) -> int:
    """Return the parameters of a norm that Megatron adds and the published models do not have.

    Without a query rank (DeepSeek-V2-Lite, Moonlight), the engine puts a trainable norm before each
    layer's query projection (NVIDIA-NeMo/Megatron-Bridge#5261).
    """
    latent = model.latent_attention
    absent = latent is None or latent.q_rank is not None
    return 0 if absent else _norm_parameters(model, model.hidden_size)


def _feed_forward(model: Architecture, width: int, tp_size: int) -> int:
    """Return the parameters of a feed-forward block, or of one expert, with an inner width."""
    up = 2 * width if model.activation.gated else width
    parameters = (model.hidden_size * up + width * model.hidden_size) // tp_size
    if model.linear_bias:
        parameters += up // tp_size + model.hidden_size
    return parameters


def input_parameters(model: Architecture, padded_vocab: int, tp_size: int = 1) -> int:
    """Return the parameters of the embeddings on the first stage: words and learned positions."""
    words = padded_vocab // tp_size * model.hidden_size
    learned = model.positions is Positions.LEARNED
    return words + (model.max_positions * model.hidden_size if learned else 0)


def prediction_parameters(model: Architecture, sharding: ParameterSharding) -> int:
    """Return the parameters of the layers for multi-token prediction on one rank.

    Each has a layer like the model's last one, two norms and a projection of its two inputs, and
    a final norm. It shares the embeddings and the output projection.
    """
    if not model.mtp_layers:
        return 0
    joined = 2 * model.hidden_size * model.hidden_size // sharding.tp_size
    norms = 3 * _norm_parameters(model, model.hidden_size)
    return model.mtp_layers * (joined + norms + layer_parameters(model, model.layers - 1, sharding))


def total_parameters(model: Architecture, padded_vocab: int) -> int:
    """Return the parameters of the whole model, each counted once."""
    whole = ParameterSharding()
    layers = sum(layer_parameters(model, layer, whole) for layer in range(model.layers))
    output = 0 if model.tied_embeddings else padded_vocab * model.hidden_size
    final_norm = _norm_parameters(model, model.hidden_size)
    ends = input_parameters(model, padded_vocab) + final_norm + output
    return layers + prediction_parameters(model, whole) + ends


def active_parameters(model: Architecture, padded_vocab: int) -> int:
    """Return the parameters that one token uses, with only `top_k` of the routed experts."""
    total = total_parameters(model, padded_vocab)
    if model.moe is None:
        return total
    idle = model.moe.experts - model.moe.top_k
    expert = _feed_forward(model, model.moe.expert_ffn_hidden_size, 1)
    with_experts = sum(map(model.moe.has_experts, range(model.layers)))
    with_experts += model.mtp_layers * model.moe.has_experts(model.layers - 1)
    return total - with_experts * idle * expert


def rank_parameters(model: Architecture, padded_vocab: int, layout: Layout, stage: Stage) -> int:
    """Return the parameters on one rank of a stage, as the engine reports them.

    The last of several stages has the output projection, even if it shares the word embeddings.
    A stage with multi-token prediction has a copy of the embeddings too.
    """
    sharding = ParameterSharding(layout.tp_size, layout.ep_size, layout.etp_size)
    parameters = sum(layer_parameters(model, layer, sharding) for layer in stage.layers)
    first, last = stage.index == 0, stage.index == layout.pp_size - 1
    if first:
        parameters += input_parameters(model, padded_vocab, layout.tp_size)
    if has_final_norm(model, layout.pp_size, stage):
        parameters += _norm_parameters(model, model.hidden_size)
    predicts = stage.has_mtp(layout.pp_size)
    if predicts:
        parameters += prediction_parameters(model, sharding)
    copies = embedding_copies(model, first=first, last=last, predicts=predicts)
    return parameters + copies * (padded_vocab // layout.tp_size * model.hidden_size)


def has_final_norm(model: Architecture, pp_size: int, stage: Stage) -> bool:
    """Return True if the norm before the output is in this stage.

    It is in the last stage or, with multi-token prediction, in the stage of the last layer.
    """
    if not model.mtp_layers or stage.mtp is None:
        return stage.index == pp_size - 1
    return any(chunk[-1:] == (model.layers - 1,) for chunk in stage.chunks)


def embedding_copies(model: Architecture, *, first: bool, last: bool, predicts: bool) -> int:
    """Return the matrices over the vocabulary on a stage, besides the embeddings of the first.

    `predicts` is True for the stage of multi-token prediction.
    """
    if first:
        return int(last and not model.tied_embeddings)
    return last + (predicts and model.mtp_layers > 0)
