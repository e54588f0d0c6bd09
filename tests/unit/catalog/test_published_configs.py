# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Presets against the configurations that their authors published (catalog/data/model-configs)."""

import re
from pathlib import Path
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.published import published_model
from seatrial.errors import FindingsError, NotInCatalogError
from seatrial.huggingface.refused import REFUSED_TYPES
from seatrial.planning.parameters import active_parameters, total_parameters
from tests.unit.huggingface.published import FILES, PUBLISHED, count_like_transformers

OLDER = {
    "llama3-405b": "llama-3.1-405b",
    "mixtral-8x7b": "mixtral-8x7b",
    "mixtral-8x22b": "mixtral-8x22b",
    "qwen3-30b-a3b": "qwen3-30b-a3b",
    "qwen3-235b-a22b": "qwen3-235b-a22b",
}
"""Presets with dimensions of their own, and the published configuration of the same model."""
SHARED = (
    *("layers", "hidden_size", "heads", "kv_heads", "head_dim", "ffn_hidden_size", "vocab_size"),
    *("rope_theta", "norm", "qk_norm", "activation", "linear_bias", "qkv_bias", "tied_embeddings"),
    *("norm_epsilon", "rotary_fraction", "window"),
)
"""What an older preset has of the published configuration; it was made for shorter sequences."""
CATALOG = Catalog()
PRESETS: dict[str, ModelPreset] = {name: CATALOG.model(name) for name in CATALOG.names(Kind.MODELS)}
BY_CONFIG = {name: preset for name, preset in PRESETS.items() if preset.config}


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_says_where_it_was_read(name: str) -> None:
    found = FILES[name]
    assert found["name"] == name
    assert found["sources"]
    for source in found["sources"]:
        assert re.fullmatch(r"[0-9a-f]{40}", source["commit"])
        assert re.fullmatch(r"[0-9a-f]{64}", source["sha256"])


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_is_read_whole_or_refused_with_the_reason(name: str) -> None:
    if name in PUBLISHED:
        assert published_model(name).architecture.layers > 0
        return
    with pytest.raises(FindingsError) as refused:
        published_model(name)
    finding = refused.value.findings[0]
    assert (finding.code, finding.where.field) == ("ST-HUB-001", "model_type")
    assert REFUSED_TYPES[finding.value] in finding.rule


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_were_computed_from_the_configuration(name: str) -> None:
    model, counts = published_model(name).architecture, FILES[name]["parameters"]
    # The files count the bias of each expert, which is not trained by the optimizer.
    moe = model.moe
    biased = 0 if moe is None else sum(map(moe.has_experts, range(model.layers))) * moe.experts
    biased = biased if moe is not None and moe.expert_bias else 0
    assert count_like_transformers(model) + biased == counts["computed_total"]


@pytest.mark.parametrize("name", BY_CONFIG)
def test_a_preset_is_its_configuration(name: str) -> None:
    preset = BY_CONFIG[name]
    found = FILES[preset.config]
    published = published_model(preset.config).architecture
    assert preset.architecture == published.model_copy(update=dict.fromkeys(preset.without))
    assert (preset.huggingface, preset.verified) == (found["huggingface"], found["verified"])
    source = found["sources"][0]
    assert preset.source == f"{source['repository']}@{source['commit'][:7]} {source['path']}"
    if preset.huggingface:
        assert CATALOG.canonical(Kind.MODELS, preset.huggingface) == name
    assert preset.sequence_length <= preset.architecture.max_positions
    if preset.learning_rate is not None:
        assert preset.sources["learning_rate"]


@pytest.mark.parametrize("preset", OLDER)
def test_a_preset_with_own_dimensions_agrees_with_the_configuration(preset: str) -> None:
    model, published = PRESETS[preset].architecture, published_model(OLDER[preset]).architecture
    assert {name: getattr(model, name) for name in SHARED} == {
        name: getattr(published, name) for name in SHARED
    }
    counts = FILES[OLDER[preset]]["parameters"]
    assert total_parameters(model, model.vocab_size) == counts["computed_total"]
    assert active_parameters(model, model.vocab_size) == counts["computed_active"]
    if model.moe is not None and published.moe is not None:
        sizes = ("experts", "top_k", "expert_ffn_hidden_size", "dense_layers")
        assert [getattr(model.moe, n) for n in sizes] == [getattr(published.moe, n) for n in sizes]


def test_there_are_enough_presets_of_enough_series() -> None:
    verified = [preset for preset in BY_CONFIG.values() if preset.verified]
    assert len(verified) >= 40
    assert len({preset.series for preset in verified}) >= 14
    assert [name for name, preset in BY_CONFIG.items() if not preset.verified] == [
        "mistral-small-3-24b"
    ]
    assert all(preset.series for preset in PRESETS.values())


def test_a_model_is_found_by_its_name_on_the_hub_in_any_case() -> None:
    for name in ("Qwen/Qwen3-8B", "qwen/qwen3-8b", "hf://Qwen/Qwen3-8B", "Qwen3-8B"):
        assert CATALOG.canonical(Kind.MODELS, name) == "qwen3-8b"
    with pytest.raises(NotInCatalogError):
        CATALOG.canonical(Kind.MODELS, "Qwen/Qwen3-9B")


def test_kimi_has_no_rotary_scaling_and_says_why() -> None:
    kimi = PRESETS["kimi-k2"]
    assert kimi.architecture.rope_scaling is None
    assert published_model("kimi-k2").architecture.rope_scaling is not None
    assert "had no rotary scaling" in kimi.note


def test_a_users_preset_takes_dimensions_from_a_configuration(tmp_path: Any) -> None:
    (tmp_path / "models.toml").write_text(
        '[mine]\nlike = "qwen3-8b"\narchitecture = {layers = 2}\n'
        '[broken]\nlike = "qwen3-8b"\nconfig = "qwen3-9b"\n'
    )
    own = Catalog([tmp_path])
    assert own.model("mine").architecture == PRESETS["qwen3-8b"].architecture.replace(layers=2)
    with pytest.raises(FindingsError, match="there is no published configuration 'qwen3-9b'"):
        own.model("broken")


def test_only_the_configuration_of_a_used_preset_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def record(file: Path) -> Any:
        read.append(file.stem)
        return FILES[file.stem]

    monkeypatch.setattr("seatrial.catalog.published.read_json", record)
    catalog = Catalog()
    assert len(catalog.names(Kind.MODELS)) > 80
    catalog.model("qwen3-8b")
    assert read == ["qwen3-8b"]
