# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Models with the parts that newer families have, in their published sizes."""

from seatrial.spec.model import Architecture

DEEPSEEK_V3 = Architecture.model_validate(
    {
        "family": "llama",
        "layers": 61,
        "hidden_size": 7168,
        "heads": 128,
        "ffn_hidden_size": 18432,
        "vocab_size": 129_280,
        "max_positions": 4096,
        "latent_attention": {
            "kv_rank": 512,
            "q_rank": 1536,
            "qk_head_dim": 128,
            "rope_head_dim": 64,
            "value_head_dim": 128,
        },
        "mtp_layers": 1,
        "moe": {
            "experts": 256,
            "top_k": 8,
            "expert_ffn_hidden_size": 2048,
            "shared_expert_ffn_hidden_size": 2048,
            "dense_layers": 3,
            "score": "sigmoid",
            "expert_bias": True,
        },
    }
)
"""arXiv 2412.19437, section 4.2."""
MOONLIGHT = Architecture.model_validate(
    {
        "family": "llama",
        "layers": 27,
        "hidden_size": 2048,
        "heads": 16,
        "ffn_hidden_size": 11_264,
        "vocab_size": 163_840,
        "max_positions": 8192,
        "latent_attention": {
            "kv_rank": 512,
            "qk_head_dim": 128,
            "rope_head_dim": 64,
            "value_head_dim": 128,
        },
        "moe": {
            "experts": 64,
            "top_k": 6,
            "expert_ffn_hidden_size": 1408,
            "shared_expert_ffn_hidden_size": 2816,
            "dense_layers": 1,
        },
    }
)
"""Latent attention without a query rank."""
GPT_OSS = Architecture.model_validate(
    {
        "family": "llama",
        "layers": 36,
        "hidden_size": 2880,
        "heads": 64,
        "kv_heads": 8,
        "head_dim": 64,
        "vocab_size": 201_088,
        "max_positions": 131_072,
        "activation": "clamped-swiglu",
        "linear_bias": True,
        "attention_sinks": True,
        "window": {"tokens": 128, "full_every": 2},
        "moe": {"experts": 128, "top_k": 4, "expert_ffn_hidden_size": 2880},
    }
)
ALTERNATING = Architecture.model_validate(
    {
        "family": "llama",
        "layers": 48,
        "hidden_size": 5120,
        "heads": 40,
        "kv_heads": 8,
        "ffn_hidden_size": 16_384,
        "vocab_size": 202_048,
        "max_positions": 8192,
        "moe": {
            "experts": 128,
            "top_k": 1,
            "expert_ffn_hidden_size": 8192,
            "shared_expert_ffn_hidden_size": 8192,
            "layer_interval": 2,
        },
    }
)
"""Dimensions of Llama 4 Maverick."""
NEMOTRON = Architecture.model_validate(
    {
        "family": "llama",
        "layers": 32,
        "hidden_size": 6144,
        "heads": 48,
        "kv_heads": 8,
        "ffn_hidden_size": 24_576,
        "vocab_size": 256_000,
        "max_positions": 4096,
        "activation": "squared-relu",
        "norm": "layernorm",
        "mtp_layers": 2,
    }
)
"""Nemotron-4 15B, with two layers for multi-token prediction, which it does not have."""


def alternating(layers: int, interval: int, dense_layers: int = 0) -> Architecture:
    """`ALTERNATING` with other numbers of layers."""
    moe = {"experts": 128, "top_k": 1, "expert_ffn_hidden_size": 8192}
    own = {"layer_interval": interval, "dense_layers": dense_layers}
    return ALTERNATING.replace(layers=layers, moe=moe | own)


FAMILIES = {
    "deepseek-v3": DEEPSEEK_V3,
    "moonlight": MOONLIGHT,
    "gpt-oss": GPT_OSS,
    "alternating": ALTERNATING,
    "nemotron": NEMOTRON,
}
