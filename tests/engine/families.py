# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny model of each family, with what makes the family itself."""

from typing import Any

Model = dict[str, Any]
LENGTH = 64
SIZES: Model = {
    "family": "llama",
    "layers": 4,
    "hidden_size": 64,
    "heads": 4,
    "kv_heads": 2,
    "ffn_hidden_size": 128,
    "vocab_size": 256,
    "max_positions": LENGTH,
}
LATENT: Model = {
    "q_rank": 32,
    "kv_rank": 24,
    "qk_head_dim": 16,
    "rope_head_dim": 8,
    "value_head_dim": 12,
}
EXPERTS: Model = {"experts": 8, "top_k": 2, "expert_ffn_hidden_size": 48, "balancing": "none"}
DEEPSEEK: Model = SIZES | {"kv_heads": 4, "norm_epsilon": 1e-6, "latent_attention": LATENT}
DEEPSEEK_EXPERTS: Model = EXPERTS | {
    "experts": 16,
    "top_k": 4,
    "shared_expert_ffn_hidden_size": 48,
    "dense_layers": 1,
    "groups": 4,
    "groups_per_token": 2,
}
SIGMOID: Model = DEEPSEEK_EXPERTS | {
    "score": "sigmoid",
    "expert_bias": True,
    "scaling_factor": 2.5,
}
UNGROUPED: Model = {
    name: value for name, value in SIGMOID.items() if name not in ("groups", "groups_per_token")
}
YARN: Model = {"kind": "yarn", "factor": 4.0, "original_positions": 32}

FAMILIES: dict[str, Model] = {
    "llama-3": SIZES | {"rope_theta": 500000.0, "rope_scaling": {"kind": "llama3", "factor": 32.0}},
    "qwen2": SIZES | {"qkv_bias": True, "tied_embeddings": True, "rope_theta": 1000000.0},
    "qwen3": SIZES | {"qk_norm": True, "head_dim": 32, "norm_epsilon": 1e-6},
    "qwen3-moe": SIZES | {"qk_norm": True, "head_dim": 32, "moe": EXPERTS},
    "mistral": SIZES | {"window": {"tokens": 16}},
    "mixtral": SIZES | {"moe": EXPERTS},
    "smollm3": SIZES | {"no_rope_every": 4, "tied_embeddings": True},
    "phi-3": SIZES | {"rotary_fraction": 0.5},
    "nemotron-4": SIZES
    | {
        "norm": "layernorm",
        "norm_centered_at_one": True,
        "activation": "squared-relu",
        "rotary_fraction": 0.5,
    },
    "deepseek-v2": DEEPSEEK
    | {"moe": DEEPSEEK_EXPERTS | {"normalize_top_k": False, "scaling_factor": 16.0}},
    "deepseek-v3": DEEPSEEK
    | {
        "moe": SIGMOID,
        "mtp_layers": 1,
        "rope_scaling": YARN | {"original_positions": 4096, "factor": 40.0, "mscale_all_dim": 1.0},
    },
    "moonlight": DEEPSEEK
    | {
        "latent_attention": {name: size for name, size in LATENT.items() if name != "q_rank"},
        "moe": UNGROUPED | {"balancing": "sequence"},
    },
    "glm-4.5": SIZES
    | {
        "qkv_bias": True,
        "qk_norm": True,
        "rotary_fraction": 0.5,
        "mtp_layers": 1,
        "moe": UNGROUPED,
    },
    "gpt-oss": SIZES
    | {
        "linear_bias": True,
        "activation": "clamped-swiglu",
        "attention_sinks": True,
        "window": {"tokens": 16, "full_every": 2},
        "rope_scaling": YARN | {"rounded": False},
        "moe": EXPERTS,
    },
    "alternating": SIZES | {"moe": EXPERTS | {"layer_interval": 2}},
    "linear": SIZES | {"rope_scaling": {"kind": "linear", "factor": 2.0}},
}
"""Kimi-K2 is a deepseek-v3. `alternating` has the layers of Llama 4, without its other parts."""
