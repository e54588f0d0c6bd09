# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Directories of Hugging Face's: what is read of them, what is refused, what a spec says of it."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.exchange.export_plan import plan_export, refuse_occupied
from seatrial.checkpoints.exchange.import_plan import plan_import, spec_of_model
from seatrial.checkpoints.exchange.safetensors_file import (
    INDEX,
    Tensor,
    divided,
    header,
    index_of,
    placed_tensors,
)
from seatrial.checkpoints.exchange.shapes import hub_tensors
from seatrial.checkpoints.exchange.weight_map import config_of_model
from seatrial.checkpoints.stored_tensors import Contents, StoredTensor
from seatrial.engines.megatron.hub_model import arguments_of_model, options_of_model
from seatrial.engines.megatron.weight_map import entries
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.huggingface.config import HubModel
from seatrial.spec.model import Architecture
from tests.unit.checkpoints.exchange.models import BY_TYPE, EVERY, GPT2, LLAMA, MIXTRAL, changed

every_type = pytest.mark.parametrize("model", EVERY, ids=lambda model: model.model_type)


def write(directory: Path, model: HubModel, **changed: Any) -> Path:
    """Weights of zeros, in the files that Hugging Face's tools write."""
    every = hub_tensors(model.architecture, entries(model))
    tensors = [Tensor(one.name, "bfloat16", one.shape) for one in every]
    directory.mkdir(exist_ok=True)
    files = divided(tensors, 40_000)
    for name, inside in files.items():
        zeros = bytes(sum(tensor.size for tensor in inside))
        (directory / name).write_bytes(header(inside) + zeros)
    if len(files) > 1:
        (directory / INDEX).write_text(json.dumps(index_of(files)))
    config = config_of_model(model, {}, "bfloat16", {}) | changed
    (directory / "config.json").write_text(json.dumps(config))
    return directory


@every_type
def test_an_import_finds_every_tensor(tmp_path: Path, model: HubModel) -> None:
    plan = plan_import(write(tmp_path / "hub", model), entries)
    assert plan.model.model_type == model.model_type
    assert plan.model.architecture.layers == model.architecture.layers
    assert plan.dtype == "bfloat16"
    assert plan.size == 2 * sum(
        tensor.elements for tensor in hub_tensors(model.architecture, entries(model))
    )
    assert len({place.file for place in plan.places.values()}) > 1


def test_tensors_lie_where_the_header_says(tmp_path: Path) -> None:
    tensors = [Tensor("a", "float32", (2, 3)), Tensor("b", "bfloat16", (5,))]
    (tmp_path / "model.safetensors").write_bytes(header(tensors) + bytes(range(34)))
    there = placed_tensors(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    assert data[there["b"].offset :] == bytes(range(24, 34))
    assert there["a"].offset % 8 == 0


def test_five_gigabytes_go_into_several_files() -> None:
    tensors = [Tensor(f"t{n}", "bfloat16", (1_000_000_000,)) for n in range(5)]
    files = divided(tensors)
    assert {name: len(inside) for name, inside in files.items()} == {
        "model-00001-of-00003.safetensors": 2,
        "model-00002-of-00003.safetensors": 2,
        "model-00003-of-00003.safetensors": 1,
    }
    assert index_of(files)["metadata"]["total_size"] == 10_000_000_000
    assert list(divided(tensors[:2])) == ["model.safetensors"]


def test_base_models_of_gpt2_are_read_without_their_prefix(tmp_path: Path) -> None:
    directory = write(tmp_path / "hub", GPT2)
    for file in directory.glob("*.safetensors"):
        data = file.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        told = json.loads(data[8 : 8 + length])
        bare = {name.removeprefix("transformer."): value for name, value in told.items()}
        text = json.dumps(bare).encode()
        file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    assert len(plan_import(directory, entries).places) == len(
        list(hub_tensors(GPT2.architecture, entries(GPT2)))
    )


def test_what_the_engine_has_no_model_for_is_refused(tmp_path: Path) -> None:
    for name, settings, said in (
        ("quantised", {"quantization_config": {"bits": 4}}, "quantised"),
        ("groups", {"num_experts_per_tok": 2}, "by its best 2, the engine by its best 1"),
        ("hybrid", {"model_type": "mamba"}, "mamba"),
    ):
        directory = write(tmp_path / name, BY_TYPE["deepseek_v3"], **settings)
        with pytest.raises(FindingsError) as refused:
            plan_import(directory, entries)
        assert said in refused.value.findings[0].rule


def test_weights_without_multi_token_prediction_are_imported_without_it(tmp_path: Path) -> None:
    """transformers drops these layers when it saves a model."""
    model = BY_TYPE["deepseek_v3"]
    without = changed(model, mtp_layers=0)
    plan = plan_import(write(tmp_path / "hub", without, num_nextn_predict_layers=1), entries)
    assert plan.model.architecture.mtp_layers == 0
    assert plan_import(write(tmp_path / "all", model), entries).model.architecture.mtp_layers == 1


def write_repeats(directory: Path, *, differing: str = "", dtype: str = "bfloat16") -> str:
    """Published weights, whose layers for multi-token prediction repeat the embedding and the head.

    Return the layer's prefix; every tensor but the `differing` one has the bytes of zeros.
    """
    model = BY_TYPE["deepseek_v3"]
    write(directory, model)
    sizes = model.architecture
    layer = f"model.layers.{sizes.layers}"
    shape = (sizes.vocab_size, sizes.hidden_size)
    names = [f"{layer}.embed_tokens.weight", f"{layer}.shared_head.head.weight"]
    tensors = [Tensor(name, dtype, shape) for name in names]
    data = {tensor.name: bytearray(tensor.size) for tensor in tensors}
    if differing:
        data[f"{layer}.{differing}"][-1] = 1
    (directory / "repeats.safetensors").write_bytes(header(tensors) + b"".join(data.values()))
    index = json.loads((directory / INDEX).read_text())
    index["weight_map"] |= dict.fromkeys(names, "repeats.safetensors")
    (directory / INDEX).write_text(json.dumps(index))
    return layer


def test_repeated_embeddings_of_published_prediction_layers_are_imported_once(
    tmp_path: Path,
) -> None:
    model = BY_TYPE["deepseek_v3"]
    write_repeats(tmp_path)
    plan = plan_import(tmp_path, entries)
    assert plan.places == {
        name: place for name, place in placed_tensors(tmp_path).items() if name in plan.places
    }
    assert len(plan.places) == len(list(hub_tensors(model.architecture, entries(model))))
    assert plan.model.architecture.mtp_layers == 1


@pytest.mark.parametrize(
    ("changed_part", "own"),
    [
        ({"differing": "embed_tokens.weight"}, "model.embed_tokens.weight"),
        ({"differing": "shared_head.head.weight"}, "lm_head.weight"),
        ({"dtype": "float16"}, "model.embed_tokens.weight"),
    ],
)
def test_a_prediction_layer_with_an_embedding_of_its_own_is_refused(
    tmp_path: Path, changed_part: dict[str, str], own: str
) -> None:
    layer = write_repeats(tmp_path, **changed_part)
    with pytest.raises(FindingsError) as refused:
        plan_import(tmp_path, entries)
    (finding,) = refused.value.findings
    assert finding.code == "ST-EXCHANGE-003"
    assert finding.rule.startswith(f"{layer}.")
    assert f"differs from {own}, which the engine uses in its place." in finding.rule


def first(directory: Path) -> Path:
    return min(directory.glob("*.safetensors"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: (d / "config.json").unlink(), "config.json cannot be read"),
        (lambda d: (d / "config.json").write_text("[1]"), "it is not a JSON object"),
        (lambda d: (d / INDEX).write_text("{}"), "not a tensor index"),
        (lambda d: first(d).write_bytes(b"x"), "header"),
        (lambda d: first(d).unlink(), "No such file"),
        (
            lambda d: first(d).write_bytes(header([Tensor("x", "float32", (9,))])),
            "is not inside the file",
        ),
    ],
)
def test_damaged_directories_are_refused(tmp_path: Path, damage: Any, said: str) -> None:
    directory = write(tmp_path / "hub", LLAMA)
    damage(directory)
    with pytest.raises(FindingsError) as refused:
        plan_import(directory, entries)
    (finding,) = refused.value.findings
    assert finding.code == "ST-EXCHANGE-004"
    assert said in finding.rule
    assert str(directory) in str(finding.where)


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    directory = write(tmp_path / "hub", GPT2)
    for file in [*directory.glob("*.safetensors"), directory / INDEX]:
        file.unlink(missing_ok=True)
    (directory / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FindingsError, match="is a pickle, which could execute code"):
        plan_import(directory, entries)
    with pytest.raises(FindingsError, match="hf download"):
        plan_import(Path("hf://meta-llama/Llama-2-7b-hf"), entries)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FindingsError, match="has shape"):
        plan_import(write(tmp_path / "a", LLAMA, intermediate_size=128), entries)
    with pytest.raises(FindingsError, match=r"lack model\.layers\.4"):
        plan_import(write(tmp_path / "b", LLAMA, num_hidden_layers=5), entries)
    with pytest.raises(FindingsError, match=r"does not have"):
        plan_import(write(tmp_path / "c", LLAMA, num_hidden_layers=1), entries)


@every_type
def test_the_printed_spec_is_the_same_model(model: HubModel) -> None:
    spec = spec_of_model(model.architecture, "/weights", options_of_model(model))
    assert Architecture.model_validate(spec["model"]["dimensions"]) == model.architecture
    assert spec["initial_weights"] == {"checkpoint": "/weights"}
    assert "engine" not in spec
    exact = options_of_model(replace(GPT2, exact_gelu=True))
    assert spec_of_model(GPT2.architecture, "", exact)["engine"] == {
        "options": {"no-bias-gelu-fusion": True}
    }


def stored(model: HubModel, dtype: str = "bfloat16") -> dict[str, StoredTensor]:
    return {
        tensor.engine: StoredTensor(tensor.engine, dtype, tensor.entry.engine_shape, ())
        for tensor in hub_tensors(model.architecture, entries(model))
    }


def test_an_export_is_planned_whole() -> None:
    there = Contents(stored(MIXTRAL), arguments_of_model(MIXTRAL))
    plan = plan_export(there, ENGINES["megatron"].checkpoints.exchange, "here", 100_000)
    assert len(plan.files) > 1
    every = hub_tensors(MIXTRAL.architecture, entries(MIXTRAL))
    assert plan.size == 2 * sum(tensor.elements for tensor in every)
    wrong = Contents(stored(LLAMA, "float8_e4m3fn"), arguments_of_model(LLAMA))
    with pytest.raises(FindingsError, match="float8_e4m3fn"):
        plan_export(wrong, ENGINES["megatron"].checkpoints.exchange, "here")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    refuse_occupied(tmp_path / "new")
    refuse_occupied(tmp_path)
    (tmp_path / "config.json").touch()
    for target in (tmp_path, tmp_path / "config.json"):
        with pytest.raises(FindingsError, match="the directory is not empty"):
            refuse_occupied(target)
