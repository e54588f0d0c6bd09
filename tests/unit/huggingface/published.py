# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The published configurations, changed ones, and parameters as transformers counts them."""

import json
from random import Random
from typing import Any

from seatrial.catalog.published import CONFIGS
from seatrial.errors import FindingsError
from seatrial.huggingface.config import read_config
from seatrial.huggingface.tables import READ_AS, TABLES
from seatrial.planning.parameters import (
    ParameterSharding,
    extra_query_norm,
    prediction_parameters,
    total_parameters,
)
from seatrial.spec.model import Architecture

FILES: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text()) for file in sorted(CONFIGS.glob("*.json"))
}
"""Every configuration by name, with where it was read."""
PUBLISHED: dict[str, dict[str, Any]] = {
    name: found["config"]
    for name, found in FILES.items()
    if READ_AS.get(found["config"]["model_type"], found["config"]["model_type"]) in TABLES
}
"""The configurations of supported types."""


def count_like_transformers(model: Architecture) -> int:
    """Return the parameters without what only the engine has, and without prediction layers."""
    total = total_parameters(model, model.vocab_size) - model.layers * extra_query_norm(model)
    return total - prediction_parameters(model, ParameterSharding())


_CHANGES: dict[str, tuple[Any, ...]] = {
    "hidden_size": (96, 256, 384, 1024),
    "n_embd": (96, 192, 384),
    "intermediate_size": (128, 352, 1000),
    "n_inner": (None, 128, 352),
    "num_hidden_layers": (1, 2, 5, 8),
    "n_layer": (1, 3),
    "num_attention_heads": (4, 8, 16),
    "n_head": (4, 8, 12),
    "num_key_value_heads": (1, 2, 4),
    "head_dim": (16, 48, 64, None),
    "vocab_size": (512, 1001, 50257),
    "max_position_embeddings": (512, 2048),
    "n_positions": (64, 1000),
    "tie_word_embeddings": (True, False),
    "attention_bias": (True, False),
    "mlp_bias": (True, False),
    "use_bias": (True, False),
    "use_qk_norm": (True, False),
    "sliding_window": (None, 128),
    "use_sliding_window": (False,),
    "partial_rotary_factor": (0.25, 0.5, 1.0),
    "num_local_experts": (4, 8),
    "num_experts": (4, 8),
    "n_routed_experts": (8, 16),
    "num_experts_per_tok": (1, 2),
    "moe_intermediate_size": (32, 96),
    "n_shared_experts": (1, 2, 3),
    "first_k_dense_replace": (0, 1),
    "decoder_sparse_step": (1, 2),
    "mlp_only_layers": ([], [0], [0, 1]),
    "norm_topk_prob": (True, False),
    "n_group": (1, 2, 4),
    "topk_group": (1, 2),
    "q_lora_rank": (None, 24, 96),
    "kv_lora_rank": (16, 64),
    "qk_nope_head_dim": (8, 32),
    "qk_rope_head_dim": (8, 16),
    "v_head_dim": (8, 24),
    "num_nextn_predict_layers": (0, 1),
    "no_rope_layers": (None,),
}
"""Values to try for each field."""


def _change(config: dict[str, Any], random: Random) -> dict[str, Any]:
    changed = dict(config)
    # Few layers, so that a model of many experts is built in little time.
    for name in ("num_hidden_layers", "n_layer"):
        if name in changed:
            changed[name] = random.choice(_CHANGES[name])
    for name in ("layer_types", "experts_per_token"):
        changed.pop(name, None)
    known = [name for name in changed if name in _CHANGES and "layer" not in name]
    for name in random.sample(known, random.randint(1, min(8, len(known)))):
        changed[name] = random.choice(_CHANGES[name])
    if changed.get("head_dim", 0) is None:
        # Missing is the size that follows from the heads; some classes fail at null.
        del changed["head_dim"]
    return changed


def mutated(number: int, seed: int) -> list[dict[str, Any]]:
    """Return changed configurations that are still accepted, the same ones for a seed."""
    random = Random(seed)  # noqa: S311
    found: list[dict[str, Any]] = []
    while len(found) < number:
        config = _change(PUBLISHED[random.choice(list(PUBLISHED))], random)
        try:
            read_config(config, "mutated")
        except FindingsError:
            continue
        found.append(config)
    return found
