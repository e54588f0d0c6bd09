# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parameter counts, to the last one."""

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.planning.layout import Layout
from seatrial.planning.parameters import (
    active_parameters,
    padded_vocab_size,
    rank_parameters,
    total_parameters,
)
from seatrial.planning.stages import stages_of
from tests.conftest import resolved

PRESETS = {
    "175b": 174_615_846_912,
    "30b": 29_977_507_840,
    "13b": 12_854_282_240,
    "1.3b": 1_315_819_520,
    "857m": 355_919_872,
    "375m": 64_633_856,
    "125m": 125_262_336,
    "gpt2-large": 774_090_240,
}
"""Vocabulary padded at the preset's tp with Megatron's multiple of 128."""

PUBLISHED = {
    # Hugging Face's own counts of the released weights, whose vocabularies are not padded.
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama3-8b": 8_030_261_248,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-30b-a3b": 30_532_122_624,
    # The n_params column of llm-foundry's benchmark tables.
    "mpt-125m": 125_311_488,
    "mpt-7b": 6_658_859_008,
    "mpt-30b": 29_975_214_080,
}

MEGATRON_TABLE = {
    # arXiv 2104.04473, table 1: P = 12 L h^2 (1 + 13/12h + (V + s)/12Lh) with V = 51,200.
    "gpt3-1.7b": 1.7,
    "gpt3-3.6b": 3.6,
    "gpt3-7.5b": 7.5,
    "gpt3-18.4b": 18.4,
    "gpt3-39.1b": 39.1,
    "gpt3-76.1b": 76.1,
    "gpt3-145.6b": 145.6,
    "gpt3-310.1b": 310.1,
}


@pytest.mark.parametrize(("name", "parameters"), PRESETS.items())
def test_presets_have_exactly_these_parameters(
    catalog: Catalog, name: str, parameters: int
) -> None:
    preset = catalog.model(name)
    padded = padded_vocab_size(preset.architecture.vocab_size, preset.tp_size, 128)
    assert total_parameters(preset.architecture, padded) == parameters


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_totals_are_the_published_ones(catalog: Catalog, name: str, parameters: int) -> None:
    model = catalog.model(name).architecture
    assert total_parameters(model, model.vocab_size) == parameters


@pytest.mark.parametrize(("name", "billions"), MEGATRON_TABLE.items())
def test_the_megatron_table_comes_out(catalog: Catalog, name: str, billions: float) -> None:
    model = catalog.model(name).architecture
    assert round(total_parameters(model, 51_200) / 1e9, 1) == billions


def test_the_hyperpod_logs_parameters_on_a_rank() -> None:
    plan = resolved(
        "cluster={profile: hyperpod-eks, node_type: ml.p5.48xlarge, nodes: 1}",
        "parallelism.tp_size=8",
    )
    assert plan.stage_parameters == (941_594_624,)
    assert plan.model.padded_vocab_size == 51_200


def test_padding() -> None:
    assert padded_vocab_size(50_257, 8, 128) == 51_200
    assert padded_vocab_size(50_257, 1, 128) == 50_304
    assert padded_vocab_size(51_200, 8, 128) == 51_200


@pytest.mark.parametrize("name", Catalog().names(Kind.MODELS))
def test_ranks_of_all_stages_add_up_to_the_model(catalog: Catalog, name: str) -> None:
    """What is shared is counted once on every rank: norms, some biases, positions, the router."""
    preset = catalog.model(name)
    model = preset.architecture
    padded = padded_vocab_size(model.vocab_size, 1, 128)
    stages = stages_of([model.layers], 1)
    alone = Layout(tp_size=1, cp_size=1, dp_size=1, pp_size=1)
    assert rank_parameters(model, padded, alone, stages[0]) == total_parameters(model, padded)
    pp = 2
    split = stages_of([model.layers // 2, model.layers - model.layers // 2], 1)
    layout = Layout(tp_size=1, cp_size=1, dp_size=1, pp_size=pp)
    copied = model.tied_embeddings or model.mtp_layers > 0
    copy = padded * model.hidden_size if copied else 0
    assert sum(rank_parameters(model, padded, layout, s) for s in split) == (
        total_parameters(model, padded) + copy
    )


def test_experts_are_shared_out_and_counted_as_active(catalog: Catalog) -> None:
    model = catalog.model("mixtral-8x7b").architecture
    stages = stages_of([model.layers], 1)
    layout = Layout(tp_size=1, cp_size=1, dp_size=8, pp_size=1, ep_size=8)
    expert = 3 * model.hidden_size * 14_336
    whole = total_parameters(model, model.vocab_size)
    rank = rank_parameters(model, model.vocab_size, layout, stages[0])
    assert whole - rank == model.layers * 7 * expert
    assert active_parameters(model, model.vocab_size) == whole - model.layers * 6 * expert
