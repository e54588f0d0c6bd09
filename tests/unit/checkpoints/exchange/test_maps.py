# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The maps between the engine's tensors and Hugging Face's, model type by model type."""

import json
import re
from math import prod
from pathlib import Path
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.checkpoints.exchange.shapes import hub_tensors, refuse_other_tensors
from seatrial.checkpoints.exchange.weight_map import TensorPart, config_of_model
from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.megatron.hub_model import (
    arguments_of_model,
    flags_of_model,
    model_of_arguments,
)
from seatrial.engines.megatron.saved_model import architecture_of_arguments, layer_pattern
from seatrial.engines.megatron.weight_map import entries, modules_with_state
from seatrial.errors import FindingsError
from seatrial.huggingface.config import HubModel, read_config
from seatrial.planning.parameters import total_parameters
from seatrial.spec.model import Architecture, Family
from seatrial.spec.model_parts import Balancing
from tests.conftest import MEGATRON
from tests.unit.checkpoints.exchange.models import BY_TYPE, EVERY, GPT2, LLAMA, MIXTRAL, changed

WRITTEN = json.loads(Path(__file__).with_name("transformers_tensors.json").read_text())
"""Names and shapes of the tensors that transformers writes (tests/engine/record_hub_tensors.py)."""
every_type = pytest.mark.parametrize("model", EVERY, ids=lambda model: model.model_type)


def tensors(model: HubModel) -> dict[str, tuple[int, ...]]:
    return {one.name: one.shape for one in hub_tensors(model.architecture, entries(model))}


@every_type
def test_tensors_are_those_that_transformers_writes(model: HubModel) -> None:
    layers = model.architecture.layers
    ours = {
        name: list(shape)
        for name, shape in tensors(model).items()
        # The other experts are like the first; transformers ignores multi-token prediction.
        if not re.search(r"\.experts\.[1-9]", name) and f"model.layers.{layers}." not in name
    }
    assert ours == WRITTEN[model.model_type]


def test_biases_and_tied_embeddings() -> None:
    assert "lm_head.weight" not in tensors(changed(LLAMA, tied_embeddings=True))
    added = tensors(changed(LLAMA, linear_bias=True)).keys() - tensors(LLAMA).keys()
    assert len(added) == 4 * 7
    assert all(name.endswith(".bias") for name in added)


@every_type
def test_both_sides_hold_the_same_numbers(model: HubModel) -> None:
    """Each tensor of the engine's is divided among those of Hugging Face's without a rest."""
    theirs: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for tensor in hub_tensors(model.architecture, entries(model)):
        theirs[tensor.engine] = theirs.get(tensor.engine, 0) + tensor.elements
        sizes[tensor.engine] = prod(tensor.entry.engine_shape)
    assert theirs == sizes


def test_experts_have_a_place_for_the_layer_and_one_for_the_expert() -> None:
    (third,) = [
        t
        for t in hub_tensors(MIXTRAL.architecture, entries(MIXTRAL))
        if t.name.endswith("1.block_sparse_moe.experts.3.w3.weight")
    ]
    assert (third.places, third.shape, third.entry.part) == (((1, 3),), (48, 64), TensorPart.UP)


def test_one_tensor_may_contain_all_experts_of_a_layer() -> None:
    model = BY_TYPE["gpt_oss"]
    found = {t.name: t for t in hub_tensors(model.architecture, entries(model))}
    experts = found["model.layers.1.mlp.experts.gate_up_proj"]
    assert experts.places == ((1, 0), (1, 1), (1, 2), (1, 3))
    assert (experts.shape, experts.piece) == ((4, 64, 96), (64, 96))


def test_layers_that_differ_have_tensors_of_their_own() -> None:
    model = BY_TYPE["deepseek_v3"]
    found = {t.name: t for t in hub_tensors(model.architecture, entries(model))}
    expert = found["model.layers.2.mlp.experts.5.down_proj.weight"]
    assert (expert.engine, expert.places) == (
        "decoder.layers.2.mlp.experts.experts.linear_fc2.weight",
        ((5,),),
    )
    assert "model.layers.0.mlp.gate.weight" not in found
    # Multi-token prediction follows the last layer, under DeepSeek's published names.
    assert found["model.layers.4.eh_proj.weight"].engine == "mtp.layers.0.eh_proj.weight"
    assert found["model.layers.4.mlp.gate.weight"].engine == (
        "mtp.layers.0.transformer_layer.mlp.router.weight"
    )


def test_each_module_has_a_state_besides_its_weights() -> None:
    modules = modules_with_state(entries(BY_TYPE["qwen3"]))
    assert "decoder.layers.self_attention.core_attention" in modules
    assert "decoder.layers.self_attention.q_layernorm" in modules
    assert "decoder.final_layernorm" in modules
    assert not any("embedding" in module for module in modules)


@every_type
def test_what_one_side_writes_the_other_reads(model: HubModel) -> None:
    config = config_of_model(model, {}, "float32", {})
    assert comparable(read_config(config, "config.json").architecture) == comparable(
        model.architecture
    )
    there = model_of_arguments(arguments_of_model(model), "here")
    assert there.model_type == model.model_type
    assert comparable(there.architecture) == comparable(model.architecture)


def comparable(model: Architecture) -> Architecture:
    """The model without what only training uses, and what no flag and no config.json says."""
    moe = model.moe
    changes: dict[str, Any] = {"family": Family.LLAMA, "mtp_loss_coefficient": 0.1}
    if moe is not None:
        unused = {"aux_loss_coefficient": 0.0, "balancing": Balancing.NONE}
        # The engine always takes the softmax first if a token has one expert.
        unused |= {"normalize_top_k": False} if moe.top_k == 1 else {}
        changes["moe"] = moe.model_dump() | unused | {"bias_update_rate": 0.001}
        if all(map(moe.has_experts, range(model.layers))):
            changes["ffn_hidden_size"] = 1
    return model.replace(**changes)


def presets() -> dict[str, Architecture]:
    found = {name: Catalog().model(name) for name in Catalog().names(Kind.MODELS)}
    return {name: one.architecture for name, one in found.items() if one.engine == "megatron"}


@pytest.mark.parametrize(("name", "model"), presets().items(), ids=list(presets()))
def test_models_of_the_catalog(name: str, model: Architecture) -> None:
    """Flags describe the whole model, and an export holds the parameters that the plan counts."""
    flags = flags_of_model(model)
    assert comparable(architecture_of_arguments(flags, name)) == comparable(model)
    if why := why_not_exported(MEGATRON, flags):
        assert "the engine" in why
        return
    there = model_of_arguments(flags, name)
    counted = sum(
        tensor.elements
        for tensor in hub_tensors(there.architecture, entries(there))
        # A buffer, not a parameter.
        if not tensor.engine.endswith("expert_bias")
    )
    assert counted == total_parameters(model, model.vocab_size)


REFUSED: list[tuple[HubModel, dict[str, Any], str]] = [
    (LLAMA, {"normalization": "LayerNorm"}, "closest class, does not support"),
    (LLAMA, {"rotary_interleaved": True}, "interleaved rotary embeddings"),
    (LLAMA, {"hybrid_layer_pattern": "M*"}, "hybrid layers"),
    (LLAMA, {"softmax_type": "off-by-one"}, "a different softmax"),
    (LLAMA, {"quick_geglu": True}, "quick GEGLU only as in gpt-oss"),
    (LLAMA, {"position_embedding_type": "none"}, "the position embedding none"),
    (LLAMA, {"window_size": (15, 1)}, "1 later tokens"),
    (LLAMA, {"no_rope_freq": [0, 1, 1, 0]}, "not evenly spaced"),
    (GPT2, {"group_query_attention": True, "num_query_groups": 2}, "kv_heads: 2"),
    (GPT2, {"add_bias_linear": False}, "linear_bias: False"),
    (GPT2, {"squared_relu": True}, "activation: squared-relu"),
    (GPT2, {"kv_channels": 32}, "head_dim: 32"),
    (GPT2, {"num_experts": 4}, "positions: learned"),
    (MIXTRAL, {"moe_layer_freq": [0, 1, 1, 0]}, "not evenly spaced"),
    (MIXTRAL, {"moe_router_pre_softmax": True}, "normalize_top_k"),
    (MIXTRAL, {"moe_expert_capacity_factor": 1.0}, "dropped tokens"),
    (MIXTRAL, {"add_bias_linear": True}, "does not support"),
    (BY_TYPE["deepseek_v3"], {"q_lora_rank": None}, "a trainable norm before each query"),
    (BY_TYPE["deepseek_v3"], {"moe_router_topk": 2}, "scores a group of experts by its best 2"),
    (BY_TYPE["deepseek_v3"], {"layernorm_epsilon": 1e-5}, "an epsilon of 1e-6"),
    (BY_TYPE["deepseek_v3"], {"qk_layernorm": False}, "normalises latent vectors"),
]


@pytest.mark.parametrize(("model", "changed", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_no_class_expresses_is_refused(
    model: HubModel, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(FindingsError) as refused:
        model_of_arguments(arguments_of_model(model) | changed, "saved/iter_0000010")
    (finding,) = refused.value.findings
    assert finding.code == "ST-EXCHANGE-001"
    assert said in finding.rule
    assert "llama" in finding.fix
    assert str(finding.where) == "saved/iter_0000010"


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        (1, [1, 1, 1, 1]),
        (2, [1, 0, 1, 0]),
        ("([0]*1+[1]*3)", [0, 1, 1, 1]),
        ("([0]*0+([0]*1+[1])*2+[0]*0)", [0, 1, 0, 1]),
        ([0, 0, 1, 1], [0, 0, 1, 1]),
    ],
)
def test_patterns_of_layers(pattern: Any, chosen: list[int]) -> None:
    assert layer_pattern(pattern, 4) == [bool(each) for each in chosen]


def test_the_engine_sets_biases_of_heads_with_those_of_all_layers() -> None:
    values = arguments_of_model(GPT2) | {"add_qkv_bias": True}
    assert model_of_arguments(values, "") == model_of_arguments(arguments_of_model(GPT2), "")


def test_gelu_is_the_one_that_the_engine_computed() -> None:
    values = arguments_of_model(GPT2)
    exact = model_of_arguments(values | {"bias_gelu_fusion": False}, "")
    assert exact.exact_gelu
    assert config_of_model(exact, {}, "float32", {})["activation_function"] == "gelu"
    del values["bias_gelu_fusion"]
    assert not model_of_arguments(values, "").exact_gelu


def shapes(model: HubModel) -> dict[str, tuple[int, ...]]:
    found = hub_tensors(model.architecture, entries(model))
    return {tensor.engine: tensor.entry.engine_shape for tensor in found}


def refuse_other(model: HubModel, there: dict[str, tuple[int, ...]], where: str) -> None:
    refuse_other_tensors(model, list(hub_tensors(model.architecture, entries(model))), there, where)


def test_a_checkpoint_with_other_tensors_is_refused() -> None:
    there = shapes(LLAMA) | {"optimizer.state.exp_avg.decoder.x": (1,)}
    refuse_other(LLAMA, there, "here")
    padded = there | {"embedding.word_embeddings.weight": (256, 64)}
    refuse_other(LLAMA, padded, "here")
    for name, shape, said in (
        ("decoder.layers.self_attention.q_layernorm.weight", (4, 16), "has no tensor for"),
        ("decoder.layers.mlp.linear_fc2.weight", (4, 64, 97), "has shape (4, 64, 97)"),
        ("embedding.word_embeddings.weight", (100, 64), "has shape (100, 64)"),
    ):
        with pytest.raises(
            FindingsError, match=r"the checkpoint contains|the arguments imply"
        ) as refused:
            refuse_other(LLAMA, there | {name: shape}, "here")
        assert said in refused.value.findings[0].rule
    del there["output_layer.weight"]
    with pytest.raises(FindingsError, match=r"needs the tensor output_layer\.weight"):
        refuse_other(LLAMA, there, "here")


@pytest.mark.parametrize(
    ("model_type", "usual", "other"),
    [
        (
            "mixtral",
            "decoder.layers.pre_mlp_layernorm.weight",
            "decoder.layers.mlp.linear_fc1.layer_norm_weight",
        ),
        (
            "deepseek_v3",
            "decoder.layers.1.self_attention.q_layernorm.weight",
            "decoder.layers.1.self_attention.linear_q_up_proj.layer_norm_weight",
        ),
        (
            "deepseek_v3",
            "decoder.layers.0.mlp.linear_fc1.layer_norm_weight",
            "decoder.layers.0.pre_mlp_layernorm.weight",
        ),
    ],
)
def test_local_layers_have_other_names_for_some_norms(
    model_type: str, usual: str, other: str
) -> None:
    model = BY_TYPE[model_type]
    there = shapes(model)
    there[other] = there[usual]
    refuse_other(model, there, "here")
    del there[usual]
    refuse_other(model, there, "here")
