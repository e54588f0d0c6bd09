# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Derive a model from the configuration that Composer saves, or from a plan's settings. Pure.

MPT has many options, and no Hugging Face class supports all of them. Three classes cover some:
MptForCausalLM covers the released MPT-7B, GPT2LMHeadModel covers MPT's own defaults, and
LlamaForCausalLM covers an MPT with rotary positions, RMSNorm and SwiGLU. None of them needs remote
code. Defaults are from `configuration_mpt.py` and `config_defaults.py`, LLM Foundry 0.22.0.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from seatrial.checkpoints.exchange.model import (
    MPT,
    OFF,
    Plain,
    class_name,
    refuse_unless_plain,
)
from seatrial.checkpoints.exchange.weight_map import MappedTensor, config_of_model
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.engines.llm_foundry.weight_map import mpt_entries, same_entries
from seatrial.huggingface.config import HubModel, read_config
from seatrial.spec.model import Activation, Architecture, Family, Norm, Positions

Values = Mapping[str, Any]
"""The model's settings by name, prefixed with their section."""

POSSIBLE = (
    "Export supports an MPT with ALiBi and without biases (MptForCausalLM), with learned "
    "positions, biases and GELU (GPT2LMHeadModel), or with rotary positions, RMSNorm and "
    "SwiGLU (LlamaForCausalLM), and Hugging Face's own Llama."
)
"""The LLM Foundry models that can be exported."""

SECTION = "model."
"""The section in a plan's settings that describes the model."""
HUGGING_FACE = "hf_causal_lm"
POSITIONS = ("alibi", "rope")
NORMS = {
    "layernorm": "LayerNorm",
    "low_precision_layernorm": "LayerNorm",
    "rmsnorm": "RMSNorm",
    "low_precision_rmsnorm": "RMSNorm",
    "triton_rmsnorm": "RMSNorm",
}
"""The functions of the norms, independent of the kernel."""
CLASSES = {
    ("alibi", "LayerNorm", "GELU", False): MPT,
    ("learned", "LayerNorm", "GELU", True): "gpt2",
    ("rope", "RMSNorm", "SwiGLU", False): "llama",
}
"""Positions, norm, activation and biases of each class."""

_ATTENTION = "attn_config."
ALWAYS_PLAIN = (
    Plain("logit_scale", (None,), "scaled logits"),
    Plain("final_logit_softcapping", (None,), "capped logits"),
    Plain("fc_type", (None, "torch"), "linear layers with other kernels"),
    Plain("fc_type.name", (None, "torch"), "linear layers with other kernels"),
    Plain("ffn_config.ffn_type", (None, "mptmlp", "mptglu"), "this feed-forward block"),
    Plain(f"{_ATTENTION}qk_ln", OFF, "normalised queries and keys"),
    Plain(f"{_ATTENTION}qk_gn", OFF, "normalised queries and keys"),
    Plain(f"{_ATTENTION}fused_qkv", (None, True), "separate tensors for queries, keys and values"),
    Plain(f"{_ATTENTION}attn_logit_softcapping", (None,), "capped attention"),
    Plain(f"{_ATTENTION}sliding_window_size", (None, -1), "sliding-window attention"),
    Plain(
        f"{_ATTENTION}attn_temperature_tuning.attn_scale",
        (None, 0.0),
        "position-dependent attention scaling",
    ),
    Plain(f"{_ATTENTION}kv_dim", (None,), "cross-attention"),
    Plain(f"{_ATTENTION}nope", OFF, "layers without positions"),
)
NOT_MPT_PLAIN = (
    Plain(f"{_ATTENTION}clip_qkv", (None,), "clipped queries, keys and values"),
    Plain(f"{_ATTENTION}softmax_scale", (None,), "a custom attention scale"),
)
CLASS_PLAIN = {
    MPT: (Plain(f"{_ATTENTION}alibi_bias_max", (None, 8), "a different ALiBi slope"),),
    "gpt2": NOT_MPT_PLAIN,
    "llama": (
        *NOT_MPT_PLAIN,
        Plain(f"{_ATTENTION}rope_dail_config.type", (None, "original"), "a different RoPE type"),
        Plain(f"{_ATTENTION}rope_hf_config.type", (None, "no_scaling"), "RoPE scaling"),
    ),
}


def model_of_saved(values: Values, where: str) -> HubModel:
    """Return the model in a saved configuration. Raises FindingsError if no class supports it."""
    kind = str(values.get("model_type"))
    if kind == "mpt":
        return _mpt(values, where)
    if kind != "llama":
        _refuse(where, f"export does not support Hugging Face models of type {kind!r}.", kind)
    return read_config(_nested(values), where)


def entries_of_saved(model: HubModel, values: Values) -> tuple[MappedTensor, ...]:
    """Return every tensor of the model in a saved configuration."""
    return mpt_entries(model) if values.get("model_type") == "mpt" else same_entries(model)


def refuse_plan(arguments: Values) -> None:
    """Reject a plan's settings if no class supports the model.

    For a model with the Hub's own code, only the Hub has the full configuration.
    """
    if arguments.get(f"{SECTION}name") != HUGGING_FACE:
        given = {
            name.removeprefix(SECTION): value
            for name, value in arguments.items()
            if name.startswith(SECTION)
        }
        _mpt(given, "")


def _refuse(where: str, rule: str, value: str = "") -> NoReturn:
    raise refusal(ExchangeCode.NO_CLASS, where, rule, POSSIBLE, value)


def _mpt(values: Values, where: str) -> HubModel:
    model_type = _model_type(values, where)
    kind = class_name(model_type)
    refuse_unless_plain(values, (*ALWAYS_PLAIN, *CLASS_PLAIN[model_type]), kind, where, POSSIBLE)
    overrides = [name for name in values if name.startswith("block_overrides") and values[name]]
    if overrides:
        rule = f"{kind} does not support layers that differ from each other ({overrides[0]})."
        _refuse(where, rule, overrides[0])
    if values.get("attention_bias") not in (None, not values.get("no_bias")):
        rule = "biases only for queries, keys and values (attention_bias)"
        _refuse(where, f"{kind} does not support {rule}.")
    exact = _has_exact_gelu(values, model_type, where)
    hidden, heads = int(values["d_model"]), int(values["n_heads"])
    head_dim = int(values.get("head_dim") or hidden // heads)
    if heads * head_dim != hidden:
        _refuse(where, f"{kind} requires head_dim = hidden size / heads.", str(head_dim))
    model = Architecture.model_validate(_dimensions(values, model_type))
    if model_type != "llama" and model.kv_heads != model.heads:
        _refuse(where, f"{kind} does not support grouped-query attention.", str(model.kv_heads))
    if model_type == MPT and model.ffn_hidden_size != 4 * model.hidden_size:
        rule = f"{kind} requires a feed-forward size of four times the hidden size."
        _refuse(where, rule, str(model.ffn_hidden_size))
    return HubModel(model_type, model, 0.02, exact)


def _model_type(values: Values, where: str) -> str:
    """Return the model type that supports an MPT."""
    on = [kind for kind in POSITIONS if values.get(f"{_ATTENTION}{kind}")]
    table = values.get("learned_pos_emb", True)
    positions = " and ".join(on) or ("learned" if table else "no positions")
    named = str(values.get("norm_type") or "low_precision_layernorm").lower()
    gated = values.get("ffn_config.ffn_type") == "mptglu"
    biases = not values.get("no_bias")
    parts = (positions, NORMS.get(named, named), "SwiGLU" if gated else "GELU", biases)
    if parts in CLASSES:
        return CLASSES[parts]
    said = ", ".join(parts[:3]) + (", biases" if biases else ", no biases")
    _refuse(where, f"seatrial export supports no model class with this combination: {said}.", said)


def _dimensions(values: Values, model_type: str) -> dict[str, Any]:
    hidden, heads = int(values["d_model"]), int(values["n_heads"])
    grouped = values.get(f"{_ATTENTION}kv_n_heads")
    if values.get(f"{_ATTENTION}attn_type") == "multiquery_attention":
        grouped = 1
    inner = values.get("ffn_config.ffn_hidden_size")
    has_biases = not values.get("no_bias")
    parts: dict[str, tuple[Positions, Norm, Activation]] = {
        MPT: (Positions.ALIBI, Norm.LAYERNORM_NO_BIAS, Activation.GELU),
        "gpt2": (Positions.LEARNED, Norm.LAYERNORM, Activation.GELU),
        "llama": (Positions.ROPE, Norm.RMSNORM, Activation.SWIGLU),
    }
    positions, norm, activation = parts[model_type]
    return {
        "family": Family.MPT,
        "layers": int(values["n_layers"]),
        "hidden_size": hidden,
        # Truncate as LLM Foundry does (models/layers/ffn.py, resolve_ffn_hidden_size).
        "ffn_hidden_size": int(inner or hidden * float(values.get("expansion_ratio") or 4)),
        "heads": heads,
        "kv_heads": int(grouped or heads),
        "vocab_size": int(values["vocab_size"]),
        "max_positions": int(values["max_seq_len"]),
        "norm_epsilon": float(values.get("norm_eps") or 1e-5),
        "positions": positions,
        "norm": norm,
        "activation": activation,
        "linear_bias": has_biases,
        "tied_embeddings": values.get("tie_word_embeddings") is not False,
        "rope_theta": float(values.get(f"{_ATTENTION}rope_theta") or 10000),
    }


def _has_exact_gelu(values: Values, model_type: str, where: str) -> bool:
    """True if the activation is exact GELU. Reject activations that the class does not support."""
    function = "ffn_config.ffn_act_fn"
    name = str(values.get(f"{function}.name") or "gelu")
    approximate = str(values.get(f"{function}.approximate") or "none")
    kind = class_name(model_type)
    if model_type == "llama":
        if name != "silu":
            rule = f"{kind} supports only SwiGLU, but the gate is {name} ({function})."
            _refuse(where, rule, name)
        return False
    if name != "gelu" or (approximate == "tanh" and model_type == MPT):
        said = name if name != "gelu" else "gelu with tanh"
        rule = f"{kind} supports only exact GELU, but the model uses {said} ({function})."
        _refuse(where, rule, said)
    return approximate != "tanh"


def config_of_saved(model: HubModel, values: Values, dtype: str, tokens: Values) -> dict[str, Any]:
    """Return the config.json of the model in a saved configuration."""
    if model.model_type != MPT:
        return config_of_model(model, values, dtype, tokens)
    sizes = model.architecture
    return {
        "architectures": [class_name(MPT)],
        "model_type": MPT,
        "torch_dtype": dtype,
        "vocab_size": sizes.vocab_size,
        "initializer_range": model.init_std,
        "tie_word_embeddings": sizes.tied_embeddings,
        "bos_token_id": tokens.get("bos_token_id"),
        "eos_token_id": tokens.get("eos_token_id"),
        "use_cache": True,
        "d_model": sizes.hidden_size,
        "n_heads": sizes.heads,
        "n_layers": sizes.layers,
        "expansion_ratio": 4,
        "max_seq_len": sizes.max_positions,
        "layer_norm_epsilon": sizes.norm_epsilon,
        "norm_type": "low_precision_layernorm",
        "no_bias": True,
        "learned_pos_emb": False,
        "resid_pdrop": 0.0,
        "emb_pdrop": 0.0,
        "attn_config": {
            "alibi": True,
            "alibi_bias_max": 8,
            "attn_pdrop": 0.0,
            "clip_qkv": values.get(f"{_ATTENTION}clip_qkv"),
            "softmax_scale": values.get(f"{_ATTENTION}softmax_scale"),
        },
    }


def _nested(values: Values) -> dict[str, Any]:
    """Return settings nested in their sections."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        *sections, last = name.split(".")
        inner = found
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return found
