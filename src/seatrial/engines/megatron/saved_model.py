# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Derive a model from Megatron's arguments: those of a plan, or those that a checkpoint contains.

The inverse of `model_flags.py`. Arguments that change the model in a way that no dimension
describes are rejected by name: an export that loads but computes different results from the engine
would be worse than no export. Pure.
"""

import ast
import operator
from collections.abc import Mapping
from typing import Any, NoReturn

from seatrial.checkpoints.exchange.model import OFF, Plain, refuse_unless_plain
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.huggingface.config import SUPPORTED
from seatrial.spec.model import Activation, Architecture, Family, Norm, Positions
from seatrial.spec.model_parts import Balancing, RopeScalingKind, RouterScore

Values = Mapping[str, Any]
"""The engine's arguments by name, with underscores."""

_BALANCING = {
    "aux_loss": Balancing.BATCH,
    "seq_aux_loss": Balancing.SEQUENCE,
    "none": Balancing.NONE,
}

PLAIN = (
    Plain("hybrid_layer_pattern", (None, ""), "hybrid layers"),
    Plain("heterogeneous_layers_config_path", (None, ""), "layers of different shapes"),
    Plain("experimental_attention_variant", (None, ""), "an experimental attention variant"),
    Plain("linear_attention_freq", (None,), "linear attention"),
    Plain("attention_output_gate", OFF, "an attention output gate"),
    Plain("softmax_type", (None, "vanilla", "learnable"), "a different softmax"),
    Plain("qk_l2_norm", OFF, "queries and keys divided by their length"),
    Plain("apply_residual_connection_post_layernorm", OFF, "residual connections after the norm"),
    Plain("use_mup", OFF, "µP multipliers"),
    Plain("rotary_interleaved", OFF, "interleaved rotary embeddings"),
    Plain("mtp_use_repeated_layer", OFF, "a repeated layer for multi-token prediction"),
    Plain("moe_shared_expert_gate", OFF, "a gate on the shared expert"),
    Plain("moe_expert_capacity_factor", (None,), "dropped tokens"),
    Plain("moe_latent_size", (None, 0), "latent experts"),
    Plain("moe_apply_probs_on_input", OFF, "router scores applied to the expert's input"),
    Plain("moe_router_force_load_balancing", OFF, "random routing"),
    Plain("moe_router_force_biased", (None,), "random routing"),
    Plain("moe_mlp_glu_interleave_size", (None,), "interleaved gates"),
)


def architecture_of_arguments(arguments: Values, where: str) -> Architecture:
    """Return the dimensions of the model in saved arguments or in a plan's flags.

    Raises FindingsError if a feature has no dimension.
    """
    values = {name.replace("-", "_"): value for name, value in arguments.items()}
    refuse_unless_plain(values, PLAIN, "Export", where, SUPPORTED)
    hidden, heads = int(values["hidden_size"]), int(values["num_attention_heads"])
    norm = _norm(values)
    # The engine inverts the flag when it parses it.
    linear_bias = bool(values.get("add_bias_linear", not values.get("disable_bias_linear")))
    grouped = values.get("group_query_attention")
    dimensions: dict[str, Any] = {
        "family": Family.LLAMA if norm is Norm.RMSNORM else Family.GPT,
        "layers": int(values["num_layers"]),
        "hidden_size": hidden,
        "heads": heads,
        "kv_heads": int(values.get("num_query_groups") or heads) if grouped else heads,
        "head_dim": int(values.get("kv_channels") or hidden // heads),
        "ffn_hidden_size": int(values.get("ffn_hidden_size") or 4 * hidden),
        "vocab_size": int(values.get("vocab_size") or values["padded_vocab_size"]),
        "max_positions": int(values["max_position_embeddings"]),
        "norm": norm,
        # The engine stores the option under the name that its model uses.
        "norm_epsilon": float(
            values.get("layernorm_epsilon") or values.get("norm_epsilon") or 1e-5
        ),
        "norm_centered_at_one": bool(
            values.get("layernorm_zero_centered_gamma") or values.get("apply_layernorm_1p")
        ),
        "activation": _activation(values, where),
        "linear_bias": linear_bias,
        # With biases in all linear layers, the engine sets this argument too.
        "qkv_bias": bool(values.get("add_qkv_bias")) and not linear_bias,
        "tied_embeddings": not values.get("untie_embeddings_and_output_weights"),
        "attention_sinks": values.get("softmax_type") == "learnable",
        "mtp_layers": int(values.get("mtp_num_layers") or 0),
        "mtp_loss_coefficient": _number(values.get("mtp_loss_scaling_factor"), 0.1),
    }
    parts = (_positions(values, where), _attention(values, where), _experts(values, where))
    for part in parts:
        dimensions |= part
    return Architecture.model_validate(dimensions)


def _refuse(where: str, rule: str, value: object = "") -> NoReturn:
    raise refusal(ExchangeCode.NO_CLASS, where, rule, SUPPORTED, str(value))


def _number(value: object, default: float = 0.0) -> float:
    """Return a number, or the first one in a list."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return float(first) if isinstance(first, (int, float)) else default


def _norm(values: Values) -> Norm:
    return Norm.RMSNORM if values.get("normalization") == "RMSNorm" else Norm.LAYERNORM


def _activation(values: Values, where: str) -> Activation:
    clamp, offset = values.get("activation_func_clamp_value"), values.get("glu_linear_offset")
    if values.get("quick_geglu") and (clamp, offset) == (7.0, 1.0):
        return Activation.CLAMPED_SWIGLU
    if values.get("quick_geglu") or clamp is not None or offset:
        said = f"clamp {clamp}, offset {offset}"
        _refuse(where, f"export supports quick GEGLU only as in gpt-oss, not with {said}.", said)
    if values.get("swiglu"):
        return Activation.SWIGLU
    return Activation.SQUARED_RELU if values.get("squared_relu") else Activation.GELU


def _positions(values: Values, where: str) -> dict[str, Any]:
    kind = str(values.get("position_embedding_type") or "learned_absolute")
    if kind == "learned_absolute":
        return {"positions": Positions.LEARNED}
    if kind not in ("rope", "yarn"):
        _refuse(where, f"export does not support the position embedding {kind}.", kind)
    layers = int(values["num_layers"])
    return {
        "positions": Positions.ROPE,
        "rope_theta": float(values.get("rotary_base") or 10000),
        "rotary_fraction": float(values.get("rotary_percent") or 1.0),
        "rope_scaling": _scaling(values, kind),
        "no_rope_every": _interval(values.get("no_rope_freq"), layers, "no_rope_freq", where),
    }


def _scaling(values: Values, kind: str) -> dict[str, Any] | None:
    latent = values.get("multi_latent_attention")
    if values.get("use_rope_scaling"):
        # The other constants are fixed in the engine (rotary_pos_embedding.py).
        factor = float(values.get("rope_scaling_factor") or 8.0)
        return {"kind": RopeScalingKind.LLAMA3, "factor": factor, "original_positions": 8192}
    if values.get("rotary_seq_len_interpolation_factor") not in (None, 1):
        factor = float(values["rotary_seq_len_interpolation_factor"])
        return {"kind": RopeScalingKind.LINEAR, "factor": factor}
    if kind != "yarn" and not (latent and values.get("rope_type") in (None, "yarn")):
        return None
    rounded = values.get("yarn_correction_range_round_to_int")
    if rounded is None:
        rounded = not values.get("no_yarn_correction_range_round_to_int")
    return {
        "kind": RopeScalingKind.YARN,
        "factor": float(values.get("rotary_scaling_factor") or 1.0),
        # The engine's defaults, which it does not store.
        "original_positions": int(values.get("yarn_original_max_position_embeddings") or 4096),
        "beta_fast": float(values.get("yarn_beta_fast") or 32.0),
        "beta_slow": float(values.get("yarn_beta_slow") or 1.0),
        "mscale": _number(values.get("mscale"), 1.0),
        "mscale_all_dim": _number(values.get("mscale_all_dim")),
        "rounded": bool(rounded),
    }


def _attention(values: Values, where: str) -> dict[str, Any]:
    layers = int(values["num_layers"])
    parts: dict[str, Any] = {}
    size = values.get("window_size")
    if size is not None:
        before, after = (int(n) for n in str(size).strip("()[] ").split(","))
        name = "window_attn_skip_freq"
        pattern = values.get(name)
        # A pattern has a 1 for a layer with the window, and here for a layer with full attention.
        full = pattern
        if isinstance(pattern, (list, tuple)) or "[" in str(pattern):
            full = [not each for each in layer_pattern(pattern, layers)]
        parts["window"] = {
            "tokens": before + 1,
            "full_every": _interval(full, layers, name, where),
        }
        if after:
            _refuse(where, f"a token attends to {after} later tokens (window_size).", size)
    if not values.get("multi_latent_attention"):
        return parts | {"qk_norm": bool(values.get("qk_layernorm"))}
    latent: dict[str, Any] = {
        "kv_rank": int(values.get("kv_lora_rank") or 32),
        "q_rank": int(values["q_lora_rank"]) if values.get("q_lora_rank") else None,
        "qk_head_dim": int(values.get("qk_head_dim") or 128),
        "rope_head_dim": int(values.get("qk_pos_emb_head_dim") or 64),
        "value_head_dim": int(values.get("v_head_dim") or 128),
    }
    if not values.get("qk_layernorm"):
        _refuse(where, "transformers normalises latent vectors, but qk_layernorm is not set.")
    heads = int(values["num_attention_heads"])
    head_dim = latent["qk_head_dim"] + latent["rope_head_dim"]
    return parts | {"latent_attention": latent, "kv_heads": heads, "head_dim": head_dim}


def layer_pattern(value: object, layers: int) -> list[bool]:
    """Return for each layer whether a pattern selects it.

    A number N selects every Nth layer from the first; a pattern is a list, or an expression of
    lists such as `([0]*1+[1]*3)`.
    """
    if isinstance(value, str):
        value = _evaluated(ast.parse(value.strip(), mode="eval").body)
    if isinstance(value, (list, tuple)):
        return [bool(each) for each in value]
    every = int(str(value))
    return [layer % every == 0 for layer in range(layers)]


_OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul}


def _evaluated(node: ast.expr) -> Any:
    """Evaluate an expression of lists and numbers."""
    if isinstance(node, ast.List):
        return [_evaluated(each) for each in node.elts]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ValueError("a layer pattern contains only lists, numbers, + and *")


def _interval(value: object, layers: int, name: str, where: str) -> int | None:
    """Return N if the pattern selects the layers N, 2N, ..., counted from 1; None for no layer."""
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) and "[" not in str(value):
        return int(str(value))
    chosen = [layer for layer, on in enumerate(layer_pattern(value, layers), start=1) if on]
    if not chosen:
        return None
    every = chosen[0]
    if chosen != list(range(every, layers + 1, every)):
        _refuse(where, f"the layers in {name} are not evenly spaced.", value)
    return every


def _experts(values: Values, where: str) -> dict[str, Any]:
    experts = int(values.get("num_experts") or 0)
    if not experts:
        return {}
    ffn = values.get("moe_ffn_hidden_size") or values.get("ffn_hidden_size")
    top_k = int(values.get("moe_router_topk") or 2)
    score = str(values.get("moe_router_score_function") or "softmax")
    if score not in list(RouterScore):
        _refuse(where, f"export does not support the router score {score}.", score)
    balancing = values.get("moe_router_load_balancing_type") or "aux_loss"
    balancing = balancing[0] if isinstance(balancing, (list, tuple)) else balancing
    moe = {
        "experts": experts,
        "top_k": top_k,
        "expert_ffn_hidden_size": int(ffn or 4 * int(values["hidden_size"])),
        "shared_expert_ffn_hidden_size": int(
            values.get("moe_shared_expert_intermediate_size") or 0
        ),
        "aux_loss_coefficient": _number(values.get("moe_aux_loss_coeff"), 0.01),
        "score": score,
        # The engine normalises sigmoid scores, and softmax scores unless it takes them first.
        "normalize_top_k": score == RouterScore.SIGMOID or not values.get("moe_router_pre_softmax"),
        "scaling_factor": _number(values.get("moe_router_topk_scaling_factor"), 1.0),
        "groups": values.get("moe_router_num_groups"),
        "groups_per_token": values.get("moe_router_group_topk"),
        "balancing": _BALANCING.get(str(balancing), Balancing.BATCH),
        "expert_bias": bool(values.get("moe_router_enable_expert_bias")),
        "bias_update_rate": _number(values.get("moe_router_bias_update_rate"), 0.001),
    }
    return {"moe": moe | _dense_layers(values, where)}


def _dense_layers(values: Values, where: str) -> dict[str, int]:
    """Return the number of leading dense layers, and the interval of layers with experts."""
    layers = int(values["num_layers"])
    pattern = layer_pattern(values.get("moe_layer_freq") or 1, layers)
    chosen = [layer for layer, on in enumerate(pattern) if on]
    if not chosen:
        _refuse(where, "no layer has experts (moe_layer_freq).")
    every = chosen[1] - chosen[0] if len(chosen) > 1 else 1
    dense = chosen[0] - (every - 1)
    if dense < 0 or chosen != list(range(chosen[0], layers, every)):
        rule = "the layers with experts are not evenly spaced (moe_layer_freq)."
        _refuse(where, rule, values.get("moe_layer_freq"))
    return {"dense_layers": dense, "layer_interval": every}
