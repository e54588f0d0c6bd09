# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write and read a model's config.json. Pure.

Both transformers 4 and 5 can read the output: rotary settings have the names from version 4, which
version 5 translates (`modeling_rope_utils.py`, 5.22.2).
"""

from collections.abc import Mapping
from typing import Any, NoReturn, assert_never

from seatrial.checkpoints.exchange.model import HubActivation, HubClass, HubModel
from seatrial.codes.exchange import POSSIBLE, ExchangeCode, refusal

Config = Mapping[str, Any]
"""The content of a config.json."""

MODEL_TYPES = {"llama": HubClass.LLAMA, "gpt2": HubClass.GPT2, "mixtral": HubClass.MIXTRAL}
LLAMA3_SCALING = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""The scaling constants that the engine hardcodes (megatron-core 0.19.2, rotary_pos_embedding)."""
_TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")


def config_of_model(model: HubModel, dtype: str, tokens: Config) -> dict[str, Any]:
    """Return the config.json of a model, with its data type and, if known, its special tokens."""
    shared = {
        "architectures": [str(model.kind)],
        "torch_dtype": dtype,
        "vocab_size": model.vocab_size,
        "initializer_range": model.init_std,
        "tie_word_embeddings": model.tied_embeddings,
        "bos_token_id": tokens.get("bos_token_id"),
        "eos_token_id": tokens.get("eos_token_id"),
        "use_cache": True,
    }
    match model.kind:
        case HubClass.GPT2:
            return shared | _gpt2(model)
        case HubClass.MPT:
            return shared | _mpt(model)
        case HubClass.LLAMA:
            biases = {"attention_bias": model.biases, "mlp_bias": model.biases}
            return shared | _llama(model) | biases
        case HubClass.MIXTRAL:
            return shared | _llama(model) | _mixtral(model)
        case _:
            assert_never(model.kind)


def _gpt2(model: HubModel) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "n_positions": model.max_positions,
        "n_embd": model.hidden_size,
        "n_layer": model.layers,
        "n_head": model.heads,
        "n_inner": model.ffn_hidden_size,
        "activation_function": str(model.activation),
        "layer_norm_epsilon": model.norm_epsilon,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    }


def _mpt(model: HubModel) -> dict[str, Any]:
    return {
        "model_type": "mpt",
        "d_model": model.hidden_size,
        "n_heads": model.heads,
        "n_layers": model.layers,
        "expansion_ratio": 4,
        "max_seq_len": model.max_positions,
        "layer_norm_epsilon": model.norm_epsilon,
        "norm_type": "low_precision_layernorm",
        "no_bias": True,
        "learned_pos_emb": False,
        "resid_pdrop": 0.0,
        "emb_pdrop": 0.0,
        "attn_config": {
            "alibi": True,
            "alibi_bias_max": 8,
            "attn_pdrop": 0.0,
            "clip_qkv": model.clip_qkv,
            "softmax_scale": model.softmax_scale,
        },
    }


def _llama(model: HubModel) -> dict[str, Any]:
    scaling = None
    if model.rope_scaling is not None:
        scaling = {"rope_type": "llama3", "factor": model.rope_scaling, **LLAMA3_SCALING}
    return {
        "model_type": "llama",
        "hidden_size": model.hidden_size,
        "intermediate_size": model.ffn_hidden_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "hidden_act": str(model.activation),
        "max_position_embeddings": model.max_positions,
        "rms_norm_eps": model.norm_epsilon,
        "rope_theta": model.rope_theta,
        "rope_scaling": scaling,
        "attention_dropout": 0.0,
    }


def _mixtral(model: HubModel) -> dict[str, Any]:
    """Return the settings that Llama does not have, or has with different values."""
    return {
        "model_type": "mixtral",
        "num_local_experts": model.experts,
        "num_experts_per_tok": model.top_k,
        "router_aux_loss_coef": model.aux_loss_coefficient,
        "sliding_window": None,
    }


def model_of_config(config: Config, where: str) -> HubModel:
    """Parse a config.json. Raises FindingsError if the engine does not support the model."""
    kind = MODEL_TYPES.get(str(config.get("model_type")))
    if kind is None:
        said = config.get("model_type")
        _refuse(where, f"import does not support models of type {said!r}.", str(said))
    if config.get("quantization_config"):
        _refuse(where, "the weights are quantised, which the engine does not support.")
    try:
        if kind is HubClass.GPT2:
            return _from_gpt2(config, where)
        return _from_llama(config, where, kind)
    except (KeyError, TypeError, ValueError) as error:
        rule = f"a value is missing or not a number: {error}."
        raise refusal(
            ExchangeCode.UNREADABLE, where, rule, "Use the config.json that belongs to the weights."
        ) from error


def _refuse(where: str, rule: str, value: str = "") -> NoReturn:
    raise refusal(ExchangeCode.NO_ENGINE, where, rule, POSSIBLE, value)


def _from_gpt2(config: Config, where: str) -> HubModel:
    for name, plain, what in (
        ("scale_attn_weights", True, "unscaled attention"),
        ("scale_attn_by_inverse_layer_idx", False, "attention scaled by layer"),
        ("add_cross_attention", False, "cross-attention"),
    ):
        if config.get(name, plain) != plain:
            _refuse(where, f"the engine does not support {what} ({name}).", str(config[name]))
    said = str(config.get("activation_function", "gelu_new"))
    if said not in (*_TANH, "gelu"):
        _refuse(where, f"for this model type, the engine supports GELU, not {said}.", said)
    hidden, heads = int(config["n_embd"]), int(config["n_head"])
    return HubModel(
        kind=HubClass.GPT2,
        layers=int(config["n_layer"]),
        hidden_size=hidden,
        ffn_hidden_size=int(config.get("n_inner") or 4 * hidden),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        vocab_size=int(config["vocab_size"]),
        max_positions=int(config["n_positions"]),
        norm_epsilon=float(config.get("layer_norm_epsilon", 1e-5)),
        activation=HubActivation.GELU_TANH if said in _TANH else HubActivation.GELU,
        biases=True,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
        init_std=float(config.get("initializer_range", 0.02)),
    )


def _from_llama(config: Config, where: str, kind: HubClass) -> HubModel:
    biases = bool(config.get("attention_bias"))
    if biases != bool(config.get("mlp_bias")):
        rule = "the engine supports biases in all linear layers or in none."
        _refuse(where, rule, str(biases))
    if config.get("hidden_act", "silu") != "silu":
        said = str(config["hidden_act"])
        _refuse(where, f"for this model type, the engine supports SwiGLU, not {said}.", said)
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    positions = int(config["max_position_embeddings"])
    window = config.get("sliding_window")
    if window is not None and int(window) < positions:
        rule = f"import does not support sliding-window attention (sliding_window is {window})."
        _refuse(where, rule, str(window))
    moe = kind is HubClass.MIXTRAL
    theta, scaling = _rotary(config, where, 1e6 if moe else 1e4)
    return HubModel(
        kind=kind,
        layers=int(config["num_hidden_layers"]),
        hidden_size=hidden,
        ffn_hidden_size=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        vocab_size=int(config["vocab_size"]),
        max_positions=positions,
        norm_epsilon=float(config.get("rms_norm_eps", 1e-5 if moe else 1e-6)),
        activation=HubActivation.SILU,
        biases=biases,
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        rope_theta=theta,
        rope_scaling=scaling,
        experts=int(config["num_local_experts"]) if moe else 0,
        top_k=int(config["num_experts_per_tok"]) if moe else 0,
        aux_loss_coefficient=float(config.get("router_aux_loss_coef", 0.001)) if moe else 0.0,
        init_std=float(config.get("initializer_range", 0.02)),
    )


def _rotary(config: Config, where: str, usual: float) -> tuple[float, float | None]:
    """Return the base and the scaling factor, from the old or the new setting names."""
    told = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(told.get("rope_theta") or config.get("rope_theta") or usual)
    kind = str(told.get("rope_type") or told.get("type") or "default")
    if theta != int(theta):
        _refuse(where, "the engine supports only an integer rope_theta.", str(theta))
    if float(told.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0) != 1:
        _refuse(where, "import does not support partial rotary embeddings.")
    if kind == "default":
        return theta, None
    others = {name: told.get(name) for name in LLAMA3_SCALING}
    if kind != "llama3" or others != LLAMA3_SCALING:
        _refuse(
            where,
            f"the engine supports only Llama 3.1's RoPE scaling, not {dict(told)}.",
            kind,
        )
    return theta, float(told["factor"])
