# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Model types that are refused, and fields that are ignored, each with the reason."""

_POST_NORM = "their blocks have a norm after them, which the engine does not have"
_HYBRID = "they mix attention with other layers, which the engine does not run on a CPU"
_RECURRENT = "they have layers without attention, which the engine does not run on a CPU"
_VISION = "they are more than a language model"

REFUSED_TYPES = {
    "olmo2": _POST_NORM,
    "olmo3": _POST_NORM,
    "olmoe": "they normalise queries and keys of all heads together, the engine each head alone",
    "gemma": "their embeddings are scaled, which the engine does not support",
    "gemma2": f"{_POST_NORM}, and their logits and embeddings are scaled",
    "gemma3_text": f"{_POST_NORM}, and their embeddings are scaled",
    "gemma3": _VISION,
    "gemma3n": _VISION,
    "glm4": _POST_NORM,
    "exaone4": _POST_NORM,
    "cohere": "attention and feed-forward run in parallel, which the engine does not support",
    "gpt_neox": "attention and feed-forward run in parallel, which the engine does not support",
    "granite": "they scale embeddings, residuals and logits, which the engine does not support",
    "qwen2_moe": "their shared expert has a gate, for which a spec has no field",
    "deepseek_v32": "their sparse attention is not supported",
    "mamba": _RECURRENT,
    "mamba2": _RECURRENT,
    "bamba": _HYBRID,
    "jamba": _HYBRID,
    "zamba2": _HYBRID,
    "falcon_h1": _HYBRID,
    "nemotron_h": _HYBRID,
    "granitemoehybrid": _HYBRID,
    "qwen3_next": _HYBRID,
    "qwen3_5": _HYBRID,
    "qwen3_5_moe": _HYBRID,
    "kimi_linear": _HYBRID,
    "llama4": _VISION,
    "mistral3": _VISION,
    "qwen2_vl": _VISION,
    "qwen2_5_vl": _VISION,
    "qwen3_vl": _VISION,
    "bert": "they are not causal language models",
    "t5": "they are not causal language models",
    "mpt": "another engine trains them; use a preset such as mpt-7b",
}
"""Well-known model types that are not supported, with the reason."""


def why_refused(model_type: str) -> str:
    """Return why a model type is not supported."""
    return REFUSED_TYPES.get(model_type, "Seatrial has no table for their config.json")


_NAMES = "names files and classes; remote code is never run"
_TOKENS = "special tokens belong to the tokenizer"
_GENERATION = "a setting for inference"
_DTYPE = "the data type of the published weights; training.precision sets it"
_LAYOUT = "the layout of the published run"
_OUTPUT = "what transformers returns, not what it computes"

IGNORED: dict[str, str] = {
    **dict.fromkeys(("auto_map", "_name_or_path", "name_or_path"), _NAMES),
    **dict.fromkeys(
        ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id"), _TOKENS
    ),
    **dict.fromkeys(("torch_dtype", "dtype"), _DTYPE),
    **dict.fromkeys(
        (
            "use_cache",
            "max_length",
            "min_length",
            "do_sample",
            "temperature",
            "top_p",
            "top_k",
            "num_beams",
            "repetition_penalty",
            "chunk_size_feed_forward",
            "cache_implementation",
        ),
        _GENERATION,
    ),
    **dict.fromkeys(
        (
            "output_attentions",
            "output_hidden_states",
            "output_router_logits",
            "return_dict",
            "id2label",
            "label2id",
            "problem_type",
        ),
        _OUTPUT,
    ),
    **dict.fromkeys(("pretraining_tp",), _LAYOUT),
    **dict.fromkeys(
        ("_attn_implementation", "_attn_implementation_autoset", "attn_implementation"),
        "the kernel, not what it computes",
    ),
    "attention_dropout": "dropout is a setting of training",
    "quantization_config": "the published weights are quantised; training uses training.precision",
    "transformers_version": "the version that wrote the file",
    "transformers.js_config": "a setting for inference",
    "is_decoder": "language models here are decoders",
}
"""Fields that do not change the model in any type, with the reason."""
