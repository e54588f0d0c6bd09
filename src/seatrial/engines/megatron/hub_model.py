# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Derive a model from the arguments that Megatron saves, and arguments from a model. Pure.

Features that a Hugging Face class does not support are rejected by name: an export that loads but
computes different results from the engine would be worse than no export.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from seatrial.checkpoints.exchange.model import (
    OFF,
    HubActivation,
    HubClass,
    HubModel,
    Plain,
    refuse_unless_plain,
)
from seatrial.checkpoints.setup import ModelShape
from seatrial.codes.exchange import POSSIBLE, ExchangeCode, refusal

Values = Mapping[str, Any]
"""The engine's arguments by name, with underscores."""


ALWAYS_PLAIN = (
    Plain("multi_latent_attention", OFF, "latent attention"),
    Plain("mtp_num_layers", (None, 0), "multi-token prediction layers"),
    Plain("hybrid_layer_pattern", (None, ""), "hybrid layers"),
    Plain("heterogeneous_layers_config_path", (None, ""), "layers of different shapes"),
    Plain("experimental_attention_variant", (None, ""), "an experimental attention variant"),
    Plain("linear_attention_freq", (None,), "linear attention"),
    Plain("attention_output_gate", OFF, "an attention output gate"),
    Plain("softmax_type", (None, "vanilla"), "a different softmax"),
    Plain("window_size", (None,), "sliding-window attention"),
    Plain("qk_layernorm", OFF, "normalised queries and keys"),
    Plain("qk_l2_norm", OFF, "normalised queries and keys"),
    Plain("layernorm_zero_centered_gamma", OFF, "norms with zero-centered weights"),
    Plain("apply_residual_connection_post_layernorm", OFF, "residual connections after the norm"),
    Plain("squared_relu", OFF, "squared ReLU"),
    Plain("quick_geglu", OFF, "quick GEGLU"),
    Plain("activation_func_clamp_value", (None,), "clamped activations"),
    Plain("glu_linear_offset", (None, 0.0), "an offset in the gated linear unit"),
    Plain("use_mup", OFF, "µP multipliers"),
)
ROTARY_PLAIN = (
    Plain("rotary_percent", (None, 1.0), "partial rotary embeddings"),
    Plain("rotary_interleaved", OFF, "interleaved rotary embeddings"),
    Plain("rotary_seq_len_interpolation_factor", (None, 1), "interpolated positions"),
    Plain("no_rope_freq", (None,), "layers without positions"),
)
EXPERTS_PLAIN = (
    Plain("moe_router_pre_softmax", OFF, "a softmax over all experts without renormalisation"),
    Plain("moe_router_score_function", (None, "softmax"), "router scores other than softmax"),
    Plain("moe_router_topk_scaling_factor", (None, 1.0), "scaled router scores"),
    Plain("moe_router_enable_expert_bias", OFF, "expert biases"),
    Plain("moe_router_num_groups", (None,), "expert groups"),
    Plain("moe_expert_capacity_factor", (None,), "dropped tokens"),
    Plain("moe_shared_expert_intermediate_size", (None, 0), "a shared expert"),
    Plain("moe_layer_freq", (None, 1, "1"), "layers without experts"),
    Plain("moe_latent_size", (None, 0), "latent experts"),
    Plain("moe_apply_probs_on_input", OFF, "router scores applied to the expert's input"),
    Plain("moe_router_force_load_balancing", OFF, "random routing"),
    Plain("moe_router_force_biased", (None,), "random routing"),
    Plain("moe_mlp_glu_interleave_size", (None,), "interleaved gates"),
)


def model_of_arguments(values: Values, where: str) -> HubModel:
    """Return the model that saved arguments describe.

    Raises FindingsError if no class supports the model.
    """
    kind = _kind(values, where)
    rules = [*ALWAYS_PLAIN]
    rules += () if kind is HubClass.GPT2 else ROTARY_PLAIN
    rules += EXPERTS_PLAIN if kind is HubClass.MIXTRAL else ()
    refuse_unless_plain(values, rules, kind, where, POSSIBLE)
    model = _model(values, kind)
    if values.get("add_qkv_bias") and not model.biases:
        rule = "biases only for queries, keys and values (add_qkv_bias)"
        _refuse(where, f"{kind} does not support {rule}.")
    _refuse_shape(model, where)
    return model


def _refuse(where: str, rule: str, value: str = "") -> NoReturn:
    raise refusal(ExchangeCode.NO_CLASS, where, rule, POSSIBLE, value)


def _kind(values: Values, where: str) -> HubClass:
    """Return the class that supports the model."""
    positions = str(values.get("position_embedding_type") or "learned_absolute")
    norm = str(values.get("normalization") or "LayerNorm")
    gated, experts = bool(values.get("swiglu")), bool(values.get("num_experts"))
    parts = (positions, norm, "SwiGLU" if gated else "GELU")
    if parts == ("rope", "RMSNorm", "SwiGLU"):
        return HubClass.MIXTRAL if experts else HubClass.LLAMA
    if parts == ("learned_absolute", "LayerNorm", "GELU") and not experts:
        return HubClass.GPT2
    said = ", ".join(parts) + (", experts" if experts else "")
    _refuse(where, f"seatrial export supports no model class with this combination: {said}.", said)


def _model(values: Values, kind: HubClass) -> HubModel:
    hidden, heads = int(values["hidden_size"]), int(values["num_attention_heads"])
    grouped = values.get("group_query_attention")
    ffn = int(values.get("ffn_hidden_size") or 4 * hidden)
    experts = int(values.get("num_experts") or 0)
    scaled = bool(values.get("use_rope_scaling"))
    return HubModel(
        kind=kind,
        layers=int(values["num_layers"]),
        hidden_size=hidden,
        ffn_hidden_size=int(values.get("moe_ffn_hidden_size") or ffn) if experts else ffn,
        heads=heads,
        kv_heads=int(values.get("num_query_groups") or heads) if grouped else heads,
        head_dim=int(values.get("kv_channels") or hidden // heads),
        vocab_size=int(values.get("vocab_size") or values["padded_vocab_size"]),
        max_positions=int(values["max_position_embeddings"]),
        norm_epsilon=float(values.get("layernorm_epsilon") or 1e-5),
        activation=_activation(values, kind),
        biases=_biases(values),
        tied_embeddings=not values.get("untie_embeddings_and_output_weights"),
        rope_theta=float(values.get("rotary_base") or 10000),
        rope_scaling=float(values.get("rope_scaling_factor") or 8.0) if scaled else None,
        experts=experts,
        top_k=int(values.get("moe_router_topk") or 2) if experts else 0,
        aux_loss_coefficient=_number(values.get("moe_aux_loss_coeff")) if experts else 0.0,
        init_std=float(values.get("init_method_std") or 0.02),
    )


def _biases(values: Values) -> bool:
    # The engine inverts the flag when it parses it.
    return bool(values.get("add_bias_linear", not values.get("disable_bias_linear")))


def _activation(values: Values, kind: HubClass) -> HubActivation:
    """Return the activation. The engine's fused kernel uses tanh GELU, the unfused one exact GELU.

    See `fusions/fused_bias_gelu.py` and `transformer/mlp.py` in megatron-core 0.19.2.
    """
    if kind is not HubClass.GPT2:
        return HubActivation.SILU
    fused = values.get("bias_gelu_fusion", True)
    return HubActivation.GELU_TANH if fused else HubActivation.GELU


def _number(value: object) -> float:
    """Return a coefficient, or the first one in a list."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return float(first) if isinstance(first, (int, float)) else 0.0


def _refuse_shape(model: HubModel, where: str) -> None:
    """Reject shapes that the transformers class rejects or cannot describe."""
    kind = model.kind
    if kind is HubClass.GPT2:
        if model.kv_heads != model.heads:
            rule = f"{kind} does not support grouped-query attention."
            _refuse(where, rule, str(model.kv_heads))
        if model.heads * model.head_dim != model.hidden_size:
            _refuse(where, f"{kind} requires head_dim = hidden size / heads.", str(model.head_dim))
        if not model.biases:
            _refuse(where, f"{kind} has biases in every linear layer, but the model has none.")
    elif kind is HubClass.MIXTRAL and model.biases:
        _refuse(where, f"{kind} has no biases, but the model has biases.")
    elif model.hidden_size % model.heads:
        rule = (
            f"{kind} requires a hidden size that is divisible by the number of heads, but "
            f"{model.hidden_size} is not divisible by {model.heads}."
        )
        _refuse(where, rule, str(model.heads))


def refuse_plan(arguments: Values) -> None:
    """Reject a plan's flags if no class supports the model."""
    model_of_arguments({name.replace("-", "_"): value for name, value in arguments.items()}, "")


def refuse_shape(shape: ModelShape, where: str) -> None:
    """Reject a model that no class supports, based on the record alone."""
    model_of_arguments(
        {
            "num_layers": shape.layers,
            "hidden_size": shape.hidden_size,
            "ffn_hidden_size": shape.ffn_hidden_size,
            "num_attention_heads": shape.heads,
            "group_query_attention": True,
            "num_query_groups": shape.kv_heads,
            "kv_channels": shape.head_dim,
            "max_position_embeddings": shape.max_positions,
            "position_embedding_type": shape.positions,
            "normalization": shape.norm,
            "swiglu": shape.gated,
            "add_bias_linear": shape.linear_bias,
            "add_qkv_bias": shape.qkv_bias,
            "qk_layernorm": shape.qk_norm,
            "padded_vocab_size": shape.padded_vocab_size,
            "num_experts": shape.experts,
            "moe_layer_freq": 1 if not shape.dense_layers else f"{shape.dense_layers} dense layers",
            "moe_shared_expert_intermediate_size": shape.shared_expert_ffn_hidden_size,
        },
        where,
    )


def arguments_of_model(model: HubModel) -> dict[str, Any]:
    """Return the engine's arguments that describe a model."""
    gpt2, moe = model.kind is HubClass.GPT2, model.kind is HubClass.MIXTRAL
    values: dict[str, Any] = {
        "num_layers": model.layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.ffn_hidden_size,
        "num_attention_heads": model.heads,
        "group_query_attention": model.kv_heads < model.heads,
        "num_query_groups": model.kv_heads,
        "kv_channels": model.head_dim,
        "max_position_embeddings": model.max_positions,
        "position_embedding_type": "learned_absolute" if gpt2 else "rope",
        "rotary_base": int(model.rope_theta),
        "use_rope_scaling": model.rope_scaling is not None,
        "rope_scaling_factor": model.rope_scaling or 8.0,
        "normalization": "LayerNorm" if gpt2 else "RMSNorm",
        "layernorm_epsilon": model.norm_epsilon,
        "swiglu": not gpt2,
        "bias_gelu_fusion": model.activation is HubActivation.GELU_TANH,
        "add_bias_linear": model.biases,
        "untie_embeddings_and_output_weights": not model.tied_embeddings,
        "vocab_size": model.vocab_size,
        "padded_vocab_size": model.vocab_size,
        "init_method_std": model.init_std,
        "num_experts": model.experts or None,
    }
    if moe:
        values |= {
            "moe_ffn_hidden_size": model.ffn_hidden_size,
            "moe_router_topk": model.top_k,
            "moe_aux_loss_coeff": model.aux_loss_coefficient,
        }
    return values


def options_of_model(model: HubModel) -> dict[str, Any]:
    """Return the options for what a spec cannot say about a model with a field."""
    options: dict[str, Any] = {}
    if model.norm_epsilon != 1e-5:
        options["norm-epsilon"] = model.norm_epsilon
    if model.rope_scaling is not None:
        options |= {"use-rope-scaling": True, "rope-scaling-factor": model.rope_scaling}
    if model.activation is HubActivation.GELU:
        options["no-bias-gelu-fusion"] = True
    return options


def option_fix(field: str, value: Any) -> str:
    """Return the options that give a field of a model a value; empty if they do not set it."""
    if field == "norm_epsilon":
        return f"engine.options.norm-epsilon={value}"
    if field == "activation":
        switch = "true" if value == "gelu" else "false"
        return f"engine.options.no-bias-gelu-fusion={switch}"
    if field == "rope_scaling":
        given = f"use-rope-scaling=true and engine.options.rope-scaling-factor={value}"
        return f"engine.options.{given}" if value else "no engine.options.use-rope-scaling"
    return ""
