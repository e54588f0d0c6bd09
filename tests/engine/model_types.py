# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One tiny model of every type that can be exported; each keeps what makes the type itself."""

from typing import Any

from seatrial.spec.model import Architecture

SIZES: dict[str, Any] = {
    "family": "llama",
    "layers": 4,
    "hidden_size": 64,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "ffn_hidden_size": 96,
    "vocab_size": 101,
    "max_positions": 64,
}
EXPERTS: dict[str, Any] = {"experts": 4, "top_k": 2, "expert_ffn_hidden_size": 48}
LATENT: dict[str, Any] = {
    **{name: size for name, size in SIZES.items() if name not in ("kv_heads", "head_dim")},
    "norm_epsilon": 1e-6,
    "latent_attention": {
        "kv_rank": 24,
        "q_rank": 32,
        "qk_head_dim": 16,
        "rope_head_dim": 8,
        "value_head_dim": 12,
    },
}
SIGMOID: dict[str, Any] = {
    "experts": 16,
    "top_k": 4,
    "expert_ffn_hidden_size": 48,
    "shared_expert_ffn_hidden_size": 48,
    "dense_layers": 1,
    "score": "sigmoid",
    "expert_bias": True,
    "bias_update_rate": 0.01,
    "scaling_factor": 2.5,
    "groups": 4,
    "groups_per_token": 2,
    "balancing": "none",
}
YARN = {"kind": "yarn", "factor": 32.0, "original_positions": 16, "rounded": False}
DIMENSIONS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "family": "gpt",
        "layers": 4,
        "hidden_size": 64,
        "heads": 4,
        "vocab_size": 101,
        "max_positions": 64,
    },
    "llama": {
        **SIZES,
        "head_dim": 32,
        "rope_theta": 500000.0,
        "rope_scaling": {"kind": "llama3", "factor": 32.0},
    },
    "mistral": {**SIZES, "window": {"tokens": 16}},
    "qwen2": {**SIZES, "qkv_bias": True, "rope_theta": 1000000.0, "tied_embeddings": True},
    "qwen3": {**SIZES, "qk_norm": True, "head_dim": 32, "norm_epsilon": 1e-6},
    "smollm3": {**SIZES, "no_rope_every": 4, "tied_embeddings": True},
    "phi3": {**SIZES, "window": {"tokens": 20}, "rotary_fraction": 0.5},
    "nemotron": {
        **SIZES,
        "norm": "layernorm",
        "norm_centered_at_one": True,
        "activation": "squared-relu",
        "rotary_fraction": 0.5,
    },
    "starcoder2": {
        **SIZES,
        "family": "gpt",
        "positions": "rope",
        "tied_embeddings": True,
        "window": {"tokens": 24},
    },
    "mixtral": {**SIZES, "moe": EXPERTS, "rope_theta": 1000000.0},
    "qwen3_moe": {
        **SIZES,
        "qk_norm": True,
        "moe": {**EXPERTS, "layer_interval": 2, "normalize_top_k": False},
    },
    "glm4_moe": {
        **SIZES,
        "qkv_bias": True,
        "qk_norm": True,
        "rotary_fraction": 0.5,
        "moe": {**SIGMOID, "groups": None, "groups_per_token": None, "scaling_factor": 1.5},
    },
    "gpt_oss": {
        **SIZES,
        "activation": "clamped-swiglu",
        "linear_bias": True,
        "attention_sinks": True,
        "rope_theta": 150000.0,
        "rope_scaling": YARN,
        "window": {"tokens": 16, "full_every": 2},
        "moe": EXPERTS,
    },
    "deepseek_v2": {
        **LATENT,
        "moe": {
            **EXPERTS,
            "experts": 8,
            "shared_expert_ffn_hidden_size": 96,
            "dense_layers": 1,
            "normalize_top_k": False,
            "scaling_factor": 4.0,
            "groups": 4,
            "groups_per_token": 2,
        },
    },
    "deepseek_v3": {
        **LATENT,
        "rope_scaling": {
            "kind": "yarn",
            "factor": 40.0,
            # The ramp of Kimi-K2, and a length of its own.
            "beta_fast": 1.0,
            "original_positions": 512,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
        "mtp_layers": 1,
        "moe": SIGMOID,
    },
}
"""Dimensions by transformers' model type."""
FAMILIES = {name: Architecture.model_validate(given) for name, given in DIMENSIONS.items()}
