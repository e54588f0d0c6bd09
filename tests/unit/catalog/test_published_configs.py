# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Presets against the configurations that their authors published (tests/data/model-configs)."""

import json
import re
from typing import Any

import pytest

from docs.tools.page_parts import ROOT
from seatrial.catalog.catalog import Catalog
from seatrial.planning.parameters import active_parameters, total_parameters

FILES = sorted((ROOT / "tests/data/model-configs").glob("*.json"))
CONFIGS: dict[str, dict[str, Any]] = {file.stem: json.loads(file.read_text()) for file in FILES}
PRESETS = {
    "llama3-405b": "llama-3.1-405b",
    "mixtral-8x7b": "mixtral-8x7b",
    "mixtral-8x22b": "mixtral-8x22b",
    "qwen3-30b-a3b": "qwen3-30b-a3b",
    "qwen3-235b-a22b": "qwen3-235b-a22b",
}
"""Presets, and the published configuration of the same model."""
SAME = {
    "layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "ffn_hidden_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "rope_theta": "rope_theta",
    "tied_embeddings": "tie_word_embeddings",
}
"""Fields with the same meaning and unit on both sides."""


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_says_where_it_was_read(name: str) -> None:
    found = CONFIGS[name]
    assert found["name"] == name
    assert found["config"]["num_hidden_layers"] > 0
    # One without a source is kept, and says so.
    assert bool(found["sources"]) or not found["verified"]
    for source in found["sources"]:
        assert re.fullmatch(r"[0-9a-f]{40}", source["commit"])
        assert re.fullmatch(r"[0-9a-f]{64}", source["sha256"])


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_has_the_published_dimensions_and_parameters(preset: str) -> None:
    model = Catalog().model(preset).architecture
    published = CONFIGS[PRESETS[preset]]
    config, counts = published["config"], published["parameters"]
    assert {ours: getattr(model, ours) for ours in SAME} == {
        ours: config[theirs] for ours, theirs in SAME.items()
    }
    assert model.head_dim == config.get("head_dim", model.hidden_size // model.heads)
    assert total_parameters(model, model.vocab_size) == counts["computed_total"]
    assert active_parameters(model, model.vocab_size) == counts["computed_active"]
    if model.moe is not None:
        experts = config.get("num_experts") or config["num_local_experts"]
        assert (model.moe.experts, model.moe.top_k) == (experts, config["num_experts_per_tok"])
