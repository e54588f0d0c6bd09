# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The maps between the engine's tensors and Hugging Face's, class by class."""

from dataclasses import replace
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.checkpoints.exchange.hub_config import config_of_model, model_of_config
from seatrial.checkpoints.exchange.model import HubActivation, HubClass, HubModel
from seatrial.checkpoints.exchange.shapes import (
    hub_tensors,
    refuse_other_tensors,
    stacked_shape,
)
from seatrial.checkpoints.exchange.weight_map import TensorPart
from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.megatron.hub_model import arguments_of_model, model_of_arguments
from seatrial.engines.megatron.weight_map import entries
from seatrial.errors import FindingsError
from seatrial.planning.parameters import total_parameters
from seatrial.spec.model import Architecture
from tests.conftest import MEGATRON
from tests.unit.checkpoints.exchange.models import EVERY, GPT2, LLAMA, MIXTRAL

LAYER_OF = {
    HubClass.LLAMA: """input_layernorm post_attention_layernorm mlp.gate_proj mlp.up_proj
        mlp.down_proj self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj""",
    HubClass.GPT2: "ln_1 ln_2 attn.c_attn attn.c_proj mlp.c_fc mlp.c_proj",
    HubClass.MIXTRAL: """input_layernorm post_attention_layernorm block_sparse_moe.gate
        self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj
        """
    + " ".join(f"block_sparse_moe.experts.{e}.w{n}" for e in range(4) for n in (1, 2, 3)),
}
"""The modules of a layer, as `named_parameters` of transformers 4.57 lists them."""


def names(model: HubModel) -> set[str]:
    return {tensor.name for tensor in hub_tensors(model, entries(model))}


@pytest.mark.parametrize("model", EVERY, ids=str)
def test_every_parameter_of_the_class_is_written(model: HubModel) -> None:
    gpt2 = model.kind is HubClass.GPT2
    prefix = "transformer.h" if gpt2 else "model.layers"
    kinds = ("weight", "bias") if gpt2 else ("weight",)
    wanted = {
        f"{prefix}.{layer}.{module}.{kind}"
        for layer in range(2)
        for module in LAYER_OF[model.kind].split()
        for kind in kinds
    }
    ends = (
        "wte.weight wpe.weight ln_f.weight ln_f.bias" if gpt2 else "embed_tokens.weight norm.weight"
    )
    base = "transformer" if gpt2 else "model"
    wanted |= {f"{base}.{end}" for end in ends.split()}
    wanted |= set() if model.tied_embeddings else {"lm_head.weight"}
    assert names(model) == wanted


def test_a_tied_model_has_no_output_and_one_with_biases_has_seven_more_a_layer() -> None:
    assert "lm_head.weight" not in names(replace(LLAMA, tied_embeddings=True))
    added = names(replace(LLAMA, biases=True)) - names(LLAMA)
    assert len(added) == 2 * 7
    assert all(name.endswith(".bias") for name in added)


@pytest.mark.parametrize("model", EVERY, ids=str)
def test_both_sides_hold_the_same_numbers(model: HubModel) -> None:
    """Each tensor of the engine's is divided among those of Hugging Face's without a rest."""
    theirs: dict[str, int] = {}
    for tensor in hub_tensors(model, entries(model)):
        name = tensor.entry.engine
        theirs[name] = theirs.get(name, 0) + tensor.elements
    for entry in entries(model):
        count = 1
        for size in stacked_shape(entry, model):
            count *= size
        assert theirs[entry.engine] == count, entry


def test_matrices_of_gpt2_are_transposed_and_vectors_are_not() -> None:
    shapes = {tensor.name: tensor.shape for tensor in hub_tensors(GPT2, entries(GPT2))}
    assert shapes["transformer.h.1.attn.c_attn.weight"] == (64, 192)
    assert shapes["transformer.h.1.attn.c_attn.bias"] == (192,)
    assert shapes["transformer.h.1.mlp.c_fc.weight"] == (64, 256)
    assert shapes["transformer.wte.weight"] == (127, 64)


def test_heads_wider_than_the_stream_and_grouped_ones() -> None:
    shapes = {tensor.name: tensor.shape for tensor in hub_tensors(LLAMA, entries(LLAMA))}
    assert shapes["model.layers.0.self_attn.q_proj.weight"] == (128, 64)
    assert shapes["model.layers.0.self_attn.k_proj.weight"] == (64, 64)
    assert shapes["model.layers.0.self_attn.o_proj.weight"] == (64, 128)


def test_experts_have_a_place_for_the_layer_and_one_for_the_expert() -> None:
    (third,) = [
        t
        for t in hub_tensors(MIXTRAL, entries(MIXTRAL))
        if t.name.endswith("1.block_sparse_moe.experts.3.w3.weight")
    ]
    assert (third.at, third.shape, third.entry.part) == ((1, 3), (96, 64), TensorPart.UP)


@pytest.mark.parametrize("model", EVERY, ids=str)
def test_what_one_side_writes_the_other_reads(model: HubModel) -> None:
    config = config_of_model(model, "float32", {})
    assert model_of_config(config, "config.json") == model
    assert model_of_arguments(arguments_of_model(model), "here") == model


def architectures() -> dict[str, Architecture]:
    presets = {name: Catalog().model(name) for name in Catalog().names(Kind.MODELS)}
    return {name: one.architecture for name, one in presets.items() if one.engine == "megatron"}


def arguments(model: Architecture) -> dict[str, Any]:
    moe = model.moe
    return {
        "num_layers": model.layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.ffn_hidden_size,
        "num_attention_heads": model.heads,
        "group_query_attention": True,
        "num_query_groups": model.kv_heads,
        "kv_channels": model.head_dim,
        "max_position_embeddings": model.max_positions,
        "position_embedding_type": "rope" if model.positions == "rope" else "learned_absolute",
        "normalization": "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm",
        "swiglu": model.activation == "swiglu",
        "disable_bias_linear": not model.linear_bias,
        "untie_embeddings_and_output_weights": not model.tied_embeddings,
        "vocab_size": model.vocab_size,
        "qk_layernorm": model.qk_norm,
        "num_experts": moe.experts if moe else None,
        "moe_ffn_hidden_size": moe.expert_ffn_hidden_size if moe else None,
    }


@pytest.mark.parametrize(("name", "model"), architectures().items(), ids=list(architectures()))
def test_models_of_the_catalog(name: str, model: Architecture) -> None:
    """An export holds exactly the parameters that the plan counts, without padding."""
    why = why_not_exported(MEGATRON, {k.replace("_", "-"): v for k, v in arguments(model).items()})
    if name.startswith("qwen3"):
        assert "normalised queries and keys" in why
        return
    assert why == ""
    there = model_of_arguments(arguments(model), name)
    assert sum(t.elements for t in hub_tensors(there, entries(there))) == total_parameters(
        model, model.vocab_size
    )


REFUSED: list[tuple[HubModel, dict[str, Any], str]] = [
    (LLAMA, {"qk_layernorm": True}, "normalised queries and keys"),
    (LLAMA, {"normalization": "LayerNorm"}, "this combination: rope, LayerNorm, SwiGLU"),
    (LLAMA, {"rotary_percent": 0.5}, "partial rotary embeddings"),
    (LLAMA, {"add_qkv_bias": True}, "biases only for queries, keys and values"),
    (LLAMA, {"multi_latent_attention": True}, "latent attention"),
    (LLAMA, {"mtp_num_layers": 1}, "multi-token prediction"),
    (LLAMA, {"layernorm_zero_centered_gamma": True}, "zero-centered weights"),
    (GPT2, {"group_query_attention": True, "num_query_groups": 2}, "grouped-query attention"),
    (GPT2, {"add_bias_linear": False}, "biases in every linear layer"),
    (GPT2, {"squared_relu": True}, "squared ReLU"),
    (GPT2, {"kv_channels": 32}, "hidden size / heads"),
    (GPT2, {"num_experts": 4}, "GELU, experts"),
    (MIXTRAL, {"moe_shared_expert_intermediate_size": 64}, "shared expert"),
    (MIXTRAL, {"moe_layer_freq": [0, 1]}, "layers without experts"),
    (MIXTRAL, {"moe_router_pre_softmax": True}, "renormalisation"),
    (MIXTRAL, {"moe_router_score_function": "sigmoid"}, "scores other than softmax"),
    (MIXTRAL, {"add_bias_linear": True}, "has no biases"),
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
    assert "LlamaForCausalLM" in finding.fix
    assert str(finding.where) == "saved/iter_0000010"


def test_gelu_is_the_one_that_the_engine_computed() -> None:
    values = arguments_of_model(GPT2)
    plain = model_of_arguments(values | {"bias_gelu_fusion": False}, "")
    assert plain.activation is HubActivation.GELU
    assert config_of_model(plain, "float32", {})["activation_function"] == "gelu"
    del values["bias_gelu_fusion"]
    assert model_of_arguments(values, "").activation is HubActivation.GELU_TANH


def shapes(model: HubModel) -> dict[str, tuple[int, ...]]:
    return {entry.engine: stacked_shape(entry, model) for entry in entries(model)}


def refuse_other(model: HubModel, there: dict[str, tuple[int, ...]], where: str) -> None:
    refuse_other_tensors(model, list(hub_tensors(model, entries(model))), there, where)


def test_a_checkpoint_with_other_tensors_is_refused() -> None:
    there = shapes(LLAMA) | {"optimizer.state.exp_avg.decoder.x": (1,)}
    refuse_other(LLAMA, there, "here")
    padded = there | {"embedding.word_embeddings.weight": (256, 64)}
    refuse_other(LLAMA, padded, "here")
    for name, shape, said in (
        ("decoder.layers.self_attention.q_layernorm.weight", (2, 16), "has no tensor for"),
        ("decoder.layers.mlp.linear_fc2.weight", (2, 64, 97), "has shape (2, 64, 97)"),
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


def test_local_layers_have_another_name_for_the_norm_before_experts() -> None:
    there = shapes(MIXTRAL)
    name = "decoder.layers.pre_mlp_layernorm.weight"
    there["decoder.layers.mlp.linear_fc1.layer_norm_weight"] = there[name]
    refuse_other(MIXTRAL, there, "here")
    del there[name]
    refuse_other(MIXTRAL, there, "here")
