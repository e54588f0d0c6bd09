# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The mapping from a model's architecture to Megatron's flags.

A flag whose architecture field has its default is None, so that it is not on the command line.
"""

from collections.abc import Callable
from dataclasses import dataclass

from seatrial.engines.engine import ArgumentValue
from seatrial.planning.plan import Plan
from seatrial.spec.model import Activation, Architecture, Norm, Positions
from seatrial.spec.model_parts import (
    AttentionWindow,
    Balancing,
    LatentAttention,
    MixtureOfExperts,
    RopeScaling,
    RopeScalingKind,
    RouterScore,
)

VOCAB_MULTIPLE = 128
"""Megatron pads the vocabulary to a multiple of this times tp_size."""
USUAL_EPSILON = 1e-5
"""The engine's default of norm-epsilon."""


@dataclass(frozen=True, slots=True)
class Flag:
    """An engine flag and the source of its value."""

    name: str
    """The flag without leading dashes."""
    field: str
    """The spec field that sets the flag; empty if no field sets it."""
    value: Callable[[Plan], ArgumentValue]


_POSITIONS = {
    Positions.LEARNED: "learned_absolute",
    Positions.ROPE: "rope",
    Positions.ALIBI: "none",
}
_NORMS = {Norm.LAYERNORM: "LayerNorm", Norm.RMSNORM: "RMSNorm"}
_BALANCING = {
    Balancing.BATCH: "aux_loss",
    Balancing.SEQUENCE: "seq_aux_loss",
    Balancing.NONE: "none",
}


def with_experts[T: ArgumentValue](value: Callable[[Plan], T]) -> Callable[[Plan], T | None]:
    """Return the value for a mixture of experts, and None for a dense model."""
    return lambda plan: value(plan) if plan.model.architecture.is_moe else None


def _model[T: ArgumentValue](value: Callable[[Architecture], T]) -> Callable[[Plan], T]:
    return lambda plan: value(plan.model.architecture)


def _moe[T: ArgumentValue](value: Callable[[MixtureOfExperts], T]) -> Callable[[Plan], T | None]:
    """Return a value of the experts, and None for a dense model."""
    return _model(lambda model: None if model.moe is None else value(model.moe))


def _latent[T: ArgumentValue](value: Callable[[LatentAttention], T]) -> Callable[[Plan], T | None]:
    """Return a value of latent attention, and None for other attention."""
    return _model(
        lambda model: None if model.latent_attention is None else value(model.latent_attention)
    )


def _window[T: ArgumentValue](value: Callable[[AttentionWindow], T]) -> Callable[[Plan], T | None]:
    return _model(lambda model: None if model.window is None else value(model.window))


def _scaling[T: ArgumentValue](
    kind: RopeScalingKind, value: Callable[[RopeScaling], T]
) -> Callable[[Plan], T | None]:
    """Return a value of the scaling of rotary frequencies if it has this kind, otherwise None."""

    def read(model: Architecture) -> T | None:
        scaling = model.rope_scaling
        return None if scaling is None or scaling.kind is not kind else value(scaling)

    return _model(read)


def _yarn[T: ArgumentValue](value: Callable[[RopeScaling], T]) -> Callable[[Plan], T | None]:
    return _scaling(RopeScalingKind.YARN, value)


def has_yarn(model: Architecture) -> bool:
    """True if the rotary frequencies are scaled with YaRN."""
    return model.rope_scaling is not None and model.rope_scaling.kind is RopeScalingKind.YARN


def _position_type(model: Architecture) -> str:
    """Return the position encoding. Latent attention selects YaRN by a flag of its own."""
    return "yarn" if has_yarn(model) and not model.latent_attention else _POSITIONS[model.positions]


def _expert_pattern(model: Architecture) -> str | None:
    """Return the pattern of layers with experts, or None if all layers have experts."""
    moe = model.moe
    if moe is None or (not moe.dense_layers and moe.layer_interval == 1):
        return None
    later = model.layers - moe.dense_layers
    if moe.layer_interval == 1:
        return f"([0]*{moe.dense_layers}+[1]*{later})"
    repeats, rest = divmod(later, moe.layer_interval)
    repeated = f"([0]*{moe.layer_interval - 1}+[1])*{repeats}"
    return f"([0]*{moe.dense_layers}+{repeated}+[0]*{rest})"


def _no_rope_pattern(model: Architecture) -> int | str | None:
    """Return every how many layers have no rotary positions.

    The engine accepts a number only if the layers are divisible by it.
    """
    every = model.no_rope_every
    if every is None or model.layers % every == 0:
        return every
    repeats, rest = divmod(model.layers, every)
    return f"([0]*{every - 1}+[1])*{repeats}+[0]*{rest}"


def _positions_length(plan: Plan) -> int:
    """Return the length of the position table; without a table, at least the sequence length."""
    model = plan.model.architecture
    if model.positions is Positions.LEARNED:
        return model.max_positions
    return max(model.max_positions, plan.model.sequence_length)


def _context_exchange(plan: Plan) -> tuple[str, ...] | None:
    """Return how context-parallel ranks exchange keys, if the engine's default does not work.

    Transformer Engine's default p2p supports neither windows nor sinks, all_gather supports
    windows, and a2a both.
    """
    model = plan.model.architecture
    if plan.layout.cp_size == 1 or (model.window is None and not model.attention_sinks):
        return None
    return ("a2a",) if model.attention_sinks else ("all_gather",)


_ATTENTION = (
    Flag("num-attention-heads", "model.dimensions.heads", _model(lambda m: m.heads)),
    Flag(
        "group-query-attention",
        "model.dimensions.kv_heads",
        _model(lambda m: m.kv_heads < m.heads),
    ),
    Flag(
        "num-query-groups",
        "model.dimensions.kv_heads",
        _model(lambda m: m.kv_heads if m.kv_heads < m.heads else None),
    ),
    Flag("kv-channels", "model.dimensions.head_dim", _model(lambda m: m.head_dim)),
    Flag(
        "multi-latent-attention",
        "model.dimensions.latent_attention",
        _model(lambda m: m.latent_attention is not None),
    ),
    Flag(
        "q-lora-rank", "model.dimensions.latent_attention.q_rank", _latent(lambda part: part.q_rank)
    ),
    Flag(
        "kv-lora-rank",
        "model.dimensions.latent_attention.kv_rank",
        _latent(lambda part: part.kv_rank),
    ),
    Flag(
        "qk-head-dim",
        "model.dimensions.latent_attention.qk_head_dim",
        _latent(lambda part: part.qk_head_dim),
    ),
    Flag(
        "qk-pos-emb-head-dim",
        "model.dimensions.latent_attention.rope_head_dim",
        _latent(lambda part: part.rope_head_dim),
    ),
    Flag(
        "v-head-dim",
        "model.dimensions.latent_attention.value_head_dim",
        _latent(lambda part: part.value_head_dim),
    ),
    # The engine counts the tokens before the current one.
    Flag(
        "window-size",
        "model.dimensions.window.tokens",
        _window(lambda window: f"{window.tokens - 1},0"),
    ),
    Flag(
        "window-attn-skip-freq",
        "model.dimensions.window.full_every",
        _window(lambda window: window.full_every),
    ),
    Flag(
        "softmax-type",
        "model.dimensions.attention_sinks",
        _model(lambda m: "learnable" if m.attention_sinks else None),
    ),
    Flag("cp-comm-type", "", _context_exchange),
)

_POSITION_FLAGS = (
    Flag("max-position-embeddings", "model.dimensions.max_positions", _positions_length),
    Flag("position-embedding-type", "model.dimensions.positions", _model(_position_type)),
    Flag(
        "rotary-base",
        "model.dimensions.rope_theta",
        _model(lambda m: int(m.rope_theta) if m.positions is Positions.ROPE else None),
    ),
    Flag(
        "rotary-percent",
        "model.dimensions.rotary_fraction",
        _model(lambda m: None if m.rotary_fraction == 1 else m.rotary_fraction),
    ),
    Flag("no-rope-freq", "model.dimensions.no_rope_every", _model(_no_rope_pattern)),
    Flag(
        "rotary-seq-len-interpolation-factor",
        "model.dimensions.rope_scaling.factor",
        _scaling(RopeScalingKind.LINEAR, lambda scaling: int(scaling.factor)),
    ),
    # Runs from a preset set these two by engine.options.
    Flag("use-rope-scaling", "", _scaling(RopeScalingKind.LLAMA3, lambda scaling: True)),
    Flag("rope-scaling-factor", "", _scaling(RopeScalingKind.LLAMA3, lambda s: s.factor)),
    # Without this flag, latent attention uses YaRN.
    Flag(
        "rope-type",
        "model.dimensions.rope_scaling.kind",
        _model(
            lambda m: None if m.latent_attention is None else ("yarn" if has_yarn(m) else "rope")
        ),
    ),
    Flag(
        "rotary-scaling-factor", "model.dimensions.rope_scaling.factor", _yarn(lambda s: s.factor)
    ),
    Flag("mscale", "model.dimensions.rope_scaling.mscale", _yarn(lambda s: s.mscale)),
    Flag(
        "mscale-all-dim",
        "model.dimensions.rope_scaling.mscale_all_dim",
        _yarn(lambda s: s.mscale_all_dim),
    ),
    # The worker passes these three on to latent attention, for which the engine ignores them.
    Flag(
        "yarn-original-max-position-embeddings",
        "model.dimensions.rope_scaling.original_positions",
        _yarn(lambda s: s.original_positions),
    ),
    Flag(
        "yarn-beta-fast",
        "model.dimensions.rope_scaling.beta_fast",
        _yarn(lambda s: s.beta_fast),
    ),
    Flag(
        "yarn-beta-slow",
        "model.dimensions.rope_scaling.beta_slow",
        _yarn(lambda s: s.beta_slow),
    ),
    Flag(
        "no-yarn-correction-range-round-to-int",
        "model.dimensions.rope_scaling.rounded",
        _yarn(lambda s: not s.rounded),
    ),
)

_BLOCK_FLAGS = (
    Flag(
        "normalization",
        "model.dimensions.norm",
        _model(lambda m: _NORMS.get(m.norm, "LayerNorm")),
    ),
    # Runs from a preset set this one by engine.options.
    Flag(
        "norm-epsilon",
        "",
        _model(lambda m: None if m.norm_epsilon == USUAL_EPSILON else m.norm_epsilon),
    ),
    Flag(
        "apply-layernorm-1p",
        "model.dimensions.norm_centered_at_one",
        _model(lambda m: m.norm_centered_at_one),
    ),
    # With latent attention, it normalises the compressed vectors.
    Flag(
        "qk-layernorm",
        "model.dimensions.qk_norm",
        _model(lambda m: m.qk_norm or m.latent_attention is not None),
    ),
    Flag(
        "swiglu",
        "model.dimensions.activation",
        _model(lambda m: m.activation is Activation.SWIGLU),
    ),
    Flag(
        "quick-geglu",
        "model.dimensions.activation",
        _model(lambda m: m.activation is Activation.CLAMPED_SWIGLU),
    ),
    Flag(
        "glu-linear-offset",
        "model.dimensions.activation",
        _model(lambda m: 1.0 if m.activation is Activation.CLAMPED_SWIGLU else None),
    ),
    Flag(
        "activation-func-clamp-value",
        "model.dimensions.activation",
        _model(lambda m: 7.0 if m.activation is Activation.CLAMPED_SWIGLU else None),
    ),
    Flag(
        "squared-relu",
        "model.dimensions.activation",
        _model(lambda m: m.activation is Activation.SQUARED_RELU),
    ),
    # The engine rejects its fused kernel for other activations than GELU and SwiGLU.
    Flag("no-bias-gelu-fusion", "", _model(lambda m: m.activation is Activation.SQUARED_RELU)),
    Flag(
        "disable-bias-linear", "model.dimensions.linear_bias", _model(lambda m: not m.linear_bias)
    ),
    Flag("add-qkv-bias", "model.dimensions.qkv_bias", _model(lambda m: m.qkv_bias)),
)

_EMBEDDINGS = (
    Flag(
        "untie-embeddings-and-output-weights",
        "model.dimensions.tied_embeddings",
        _model(lambda m: not m.tied_embeddings),
    ),
    Flag("vocab-size", "model.dimensions.vocab_size", _model(lambda m: m.vocab_size)),
    Flag("make-vocab-size-divisible-by", "", lambda p: VOCAB_MULTIPLE),
    # Otherwise the engine pads the tokenizer's vocabulary, which may be smaller than the model's.
    Flag("padded-vocab-size", "model.dimensions.vocab_size", lambda p: p.model.padded_vocab_size),
    Flag("mtp-num-layers", "model.dimensions.mtp_layers", _model(lambda m: m.mtp_layers or None)),
    Flag(
        "mtp-loss-scaling-factor",
        "model.dimensions.mtp_loss_coefficient",
        _model(lambda m: m.mtp_loss_coefficient if m.mtp_layers else None),
    ),
)

_EXPERTS = (
    Flag("num-experts", "model.dimensions.moe.experts", _moe(lambda moe: moe.experts)),
    Flag("moe-router-topk", "model.dimensions.moe.top_k", _moe(lambda moe: moe.top_k)),
    Flag(
        "moe-ffn-hidden-size",
        "model.dimensions.moe.expert_ffn_hidden_size",
        _moe(lambda moe: moe.expert_ffn_hidden_size),
    ),
    Flag(
        "moe-shared-expert-intermediate-size",
        "model.dimensions.moe.shared_expert_ffn_hidden_size",
        _moe(lambda moe: moe.shared_expert_ffn_hidden_size or None),
    ),
    Flag("moe-layer-freq", "model.dimensions.moe.dense_layers", _model(_expert_pattern)),
    Flag(
        "moe-aux-loss-coeff",
        "model.dimensions.moe.aux_loss_coefficient",
        _moe(lambda moe: None if moe.balancing is Balancing.NONE else moe.aux_loss_coefficient),
    ),
    # Sinkhorn and other balancing of the engine is set by engine.options.
    Flag("moe-router-load-balancing-type", "", _moe(lambda moe: _BALANCING[moe.balancing])),
    # The weights are the scores over all experts, not over the chosen ones. The engine requires
    # this flag if each token uses only one expert.
    Flag(
        "moe-router-pre-softmax",
        "",
        _moe(
            lambda moe: (
                moe.score is RouterScore.SOFTMAX and (moe.top_k == 1 or not moe.normalize_top_k)
            )
        ),
    ),
    Flag(
        "moe-router-score-function",
        "model.dimensions.moe.score",
        _moe(lambda moe: None if moe.score is RouterScore.SOFTMAX else str(moe.score)),
    ),
    Flag(
        "moe-router-topk-scaling-factor",
        "model.dimensions.moe.scaling_factor",
        _moe(lambda moe: None if moe.scaling_factor == 1 else moe.scaling_factor),
    ),
    Flag("moe-router-num-groups", "model.dimensions.moe.groups", _moe(lambda moe: moe.groups)),
    Flag(
        "moe-router-group-topk",
        "model.dimensions.moe.groups_per_token",
        _moe(lambda moe: moe.groups_per_token),
    ),
    Flag(
        "moe-router-enable-expert-bias",
        "model.dimensions.moe.expert_bias",
        _moe(lambda moe: moe.expert_bias),
    ),
    Flag(
        "moe-router-bias-update-rate",
        "model.dimensions.moe.bias_update_rate",
        _moe(lambda moe: moe.bias_update_rate if moe.expert_bias else None),
    ),
)

MODEL_FLAGS = (
    Flag("num-layers", "model.dimensions.layers", _model(lambda m: m.layers)),
    Flag("hidden-size", "model.dimensions.hidden_size", _model(lambda m: m.hidden_size)),
    Flag(
        "ffn-hidden-size", "model.dimensions.ffn_hidden_size", _model(lambda m: m.ffn_hidden_size)
    ),
    *_ATTENTION,
    *_POSITION_FLAGS,
    *_BLOCK_FLAGS,
    *_EMBEDDINGS,
    *_EXPERTS,
)
"""The flags of the model, in command-line order."""
