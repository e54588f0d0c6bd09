# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The models of the published rows: dimensions from the row, the rest from what is public."""

import re
from dataclasses import dataclass
from typing import Any

from seatrial.spec.model import Activation, Architecture, Family

Row = dict[str, str]

_MOE = re.compile(
    r"MoE (\d+)(?: routed)? experts topk(\d+)(?: moe_ffn (\d+))?(?: (\d+) shared)?",
)
_HEAD_DIM = re.compile(r"head_dim (\d+)")
_DENSE_LAYERS = re.compile(r"(\d+) dense layers")

UNSTATED: dict[str, dict[str, int]] = {
    # vocab: NeMo's GPT-3 has GPT-2's 50,257 entries, padded. The others from the models' own
    # config.json files on the Hub.
    "GPT3": {"vocab": 51200},
    "InternLM-7B": {"vocab": 103168, "ffn_hidden": 11008},
    "Llama4-Maverick-400B": {"ffn_hidden": 16384},
}
"""Dimensions that a source leaves out, by the beginning of the model's name."""
SQUARED_RELU = "squared-ReLU"
MAVERICK_EXPERT = 8192
"""Inner width of Llama 4 Maverick's routed and shared experts (its config.json)."""


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model as the timing model needs it."""

    architecture: Architecture
    attention_weights: int = 0
    attention_share: float = 1.0
    moe_every: int = 1


def published_model(row: Row) -> PublishedModel | None:
    """The model of a row, or nothing where its dimensions are not known."""
    name, notes = row["model"], row["notes"]
    given = {key: int(row[key]) for key in ("vocab", "ffn_hidden") if row[key]}
    for prefix, values in UNSTATED.items():
        if name.startswith(prefix):
            given = values | given
    if not (row["layers"] and row["hidden"] and row["heads"] and "vocab" in given):
        return None
    if "hybrid" in notes:
        return None
    layers, hidden, heads = int(row["layers"]), int(row["hidden"]), int(row["heads"])
    family = _family(row)
    stated = _HEAD_DIM.search(notes)
    latent = "MLA" in notes
    head_dim = int(stated[1]) if stated else 128 if latent else hidden // heads
    if name.startswith("GPT-OSS"):
        head_dim = 64
    fields: dict[str, Any] = {
        "family": family,
        "layers": layers,
        "hidden_size": hidden,
        "heads": heads,
        "kv_heads": int(row["kv_heads"] or heads),
        "head_dim": head_dim,
        "vocab_size": given["vocab"],
        "max_positions": int(row["seq_len"] or 2048),
    }
    if "ffn_hidden" in given:
        fields["ffn_hidden_size"] = given["ffn_hidden"]
    if SQUARED_RELU in notes:
        fields["activation"] = Activation.GELU
    moe = _experts(row, given)
    if moe:
        fields["moe"] = moe
    if "DeepSeekV3" in name and "w/o MTP" not in notes:
        # The layer that predicts one token further.
        fields["layers"] += 1
    return PublishedModel(
        Architecture.model_validate(fields),
        attention_weights=_latent_weights(hidden, heads) if latent else 0,
        # Latent attention scores with 192 and sums with 128 where others have 128 and 128.
        # GPT-OSS attends to 128 tokens in every other layer, of 4,096.
        attention_share=1.25 if latent else 0.52 if "sliding" in notes else 1.0,
        moe_every=2 if "interleaved dense/MoE" in notes else 1,
    )


def _family(row: Row) -> Family:
    """What kind of model it is, by its name."""
    name = row["model"]
    if name.startswith("MPT"):
        return Family.MPT
    if name.startswith(("GPT-OSS", "Llama", "LLAMA", "Nemotron", "Grok", "Mixtral", "Qwen")):
        return Family.LLAMA
    if name.startswith(("DeepSeek", "Kimi", "InternLM", "Moonlight", "Mistral")):
        return Family.LLAMA
    return Family.GPT


def _experts(row: Row, given: dict[str, int]) -> dict[str, int] | None:
    found = _MOE.search(row["notes"])
    if not found:
        return None
    width = int(found[3] or given.get("ffn_hidden", 0))
    shared = int(found[4] or 0) * width
    if row["model"].startswith("Llama4-Maverick"):
        width = shared = MAVERICK_EXPERT
    dense = _DENSE_LAYERS.search(row["notes"])
    leading = int(dense[1]) if dense else 1 if row["model"].startswith("Kimi") else 0
    return {
        "experts": int(found[1]),
        "top_k": int(found[2]),
        "expert_ffn_hidden_size": width,
        "shared_expert_ffn_hidden_size": shared,
        "dense_layers": leading,
    }


def _latent_weights(hidden: int, heads: int) -> int:
    """Attention weights of a layer of DeepSeek V3 and Kimi K2 (arXiv 2412.19437, section 4.2)."""
    queries = hidden * 1536 + 1536 * heads * 192
    keys = hidden * 576 + 512 * heads * 256
    return queries + keys + heads * 128 * hidden
