# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Models of LLM Foundry and the class of Hugging Face's that has their parts."""

from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.checkpoints.by_engine import engine_of, setup_of
from seatrial.checkpoints.exchange.export_plan import plan_export
from seatrial.checkpoints.exchange.model import class_name
from seatrial.checkpoints.exchange.shapes import hub_tensors
from seatrial.checkpoints.stored_tensors import Contents, StoredTensor
from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.llm_foundry.hub_model import (
    config_of_saved,
    entries_of_saved,
    model_of_saved,
)
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.planning.parameters import total_parameters
from seatrial.planning.plan import Plan
from seatrial.recipes.shipped import recipe
from seatrial.sdk.plan import load_plan

FOUNDRY = ENGINES["llm-foundry"]
SIDE = FOUNDRY.checkpoints.exchange
Values = dict[str, Any]

DEFAULTS: Values = {
    "model_type": "mpt",
    "d_model": 64,
    "n_heads": 4,
    "n_layers": 2,
    "expansion_ratio": 4,
    "max_seq_len": 32,
    "vocab_size": 128,
    "learned_pos_emb": True,
    "no_bias": False,
    "attention_bias": True,
    "norm_type": "low_precision_layernorm",
    "norm_eps": 1e-5,
    "logit_scale": None,
    "fc_type.name": "torch",
    "ffn_config.ffn_type": "mptmlp",
    "attn_config.alibi": False,
    "attn_config.rope": False,
    "attn_config.qk_ln": False,
    "attn_config.fused_qkv": True,
    "attn_config.sliding_window_size": -1,
    "attn_config.alibi_bias_max": 8,
    "attn_config.attn_temperature_tuning.attn_scale": 0.0,
}
"""A configuration as Composer saves it."""
BARE = DEFAULTS | {"no_bias": True, "attention_bias": False}
ALIBI = BARE | {"attn_config.alibi": True, "learned_pos_emb": False}
ROTATED = BARE | {
    "learned_pos_emb": False,
    "norm_type": "low_precision_rmsnorm",
    "expansion_ratio": 1.5,
    "tie_word_embeddings": False,
    "ffn_config.ffn_type": "mptglu",
    "ffn_config.ffn_act_fn.name": "silu",
    "attn_config.rope": True,
    "attn_config.rope_theta": 500000,
    "attn_config.rope_impl": "dail",
    "attn_config.kv_n_heads": 2,
}
LLAMA: Values = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "vocab_size": 127,
    "rms_norm_eps": 1e-6,
    "rope_scaling.rope_type": "llama3",
    "rope_scaling.factor": 8.0,
    "rope_scaling.low_freq_factor": 1.0,
    "rope_scaling.high_freq_factor": 4.0,
    "rope_scaling.original_max_position_embeddings": 8192,
}
CASES = [
    (DEFAULTS, "gpt2"),
    (DEFAULTS | {"tie_word_embeddings": False}, "gpt2"),
    (ALIBI, "mpt"),
    (ROTATED, "llama"),
    (LLAMA, "llama"),
    (LLAMA | {"tie_word_embeddings": True}, "llama"),
]


def stored(values: Values) -> dict[str, StoredTensor]:
    """The tensors that such a model is saved with."""
    model = model_of_saved(values, "")
    found = {
        tensor.engine: tensor.entry.shape
        for tensor in hub_tensors(model.architecture, entries_of_saved(model, values))
    }
    return {name: StoredTensor(name, "float32", shape, ()) for name, shape in found.items()}


@pytest.mark.parametrize(("values", "kind"), CASES, ids=str)
def test_every_number_of_a_save_goes_to_the_class(values: Values, kind: str) -> None:
    there = stored(values)
    plan = plan_export(Contents(there, values), SIDE, "saved/ba9")
    assert plan.model.model_type == kind
    assert plan.padding == 0
    assert plan.config("float32", {})["architectures"] == [class_name(kind)]
    held = {name: one.shape for name, one in there.items()}
    assert plan.size == 4 * sum(_count(shape) for shape in held.values())
    for name in plan.sources:
        assert "{" not in name + plan.engine_names[name]


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def test_heads_of_one_tensor_are_taken_apart() -> None:
    plan = plan_export(Contents(stored(ROTATED), ROTATED), SIDE, "")
    shapes = {name: one.shape for name, one in plan.sources.items()}
    assert shapes["model.layers.1.self_attn.q_proj.weight"] == (64, 64)
    assert shapes["model.layers.1.self_attn.v_proj.weight"] == (32, 64)
    assert plan.engine_names["model.layers.1.self_attn.v_proj.weight"] == (
        "model.transformer.blocks.1.attn.Wqkv.weight"
    )
    assert plan.model.architecture.ffn_hidden_size == 96
    assert plan.model.architecture.rope_theta == 500000.0


def test_a_save_of_tied_embeddings_may_have_both_names() -> None:
    values = LLAMA | {"tie_word_embeddings": True}
    there = stored(values)
    both = there | {
        name: StoredTensor(name, "float32", (127, 64), ())
        for name in ("model.lm_head.weight", "model.model.embed_tokens.weight")
    }
    for held in (there, both):
        plan = plan_export(Contents(held, values), SIDE, "")
        assert "lm_head.weight" not in plan.sources
        assert plan.engine_names["model.embed_tokens.weight"] in held


def test_a_save_with_other_tensors_is_refused() -> None:
    more = stored(ALIBI) | {"model.transformer.wpe.weight": StoredTensor("x", "float32", (9,), ())}
    with pytest.raises(FindingsError, match=r"no tensor for model\.transformer\.wpe\.weight"):
        plan_export(Contents(more, ALIBI), SIDE, "")
    wrong = stored(ALIBI) | {
        "model.transformer.wte.weight": StoredTensor("x", "float32", (256, 64), ())
    }
    with pytest.raises(FindingsError, match=r"has shape \(256, 64\)"):
        plan_export(Contents(wrong, ALIBI), SIDE, "")


REFUSED: list[tuple[Values, Values, str]] = [
    (DEFAULTS, {"no_bias": True, "attention_bias": False}, "learned, LayerNorm, GELU, no biases"),
    (DEFAULTS, {"attn_config.alibi": True}, "this combination: alibi, LayerNorm, GELU, biases"),
    (DEFAULTS, {"learned_pos_emb": False}, "no positions, LayerNorm"),
    (DEFAULTS, {"norm_type": "p_norm"}, "learned, p_norm"),
    (DEFAULTS, {"attn_config.qk_ln": True}, "normalised queries and keys (attn_config.qk_ln is"),
    (DEFAULTS, {"attn_config.clip_qkv": 6.0}, "clipped queries, keys and values"),
    (DEFAULTS, {"attn_config.kv_n_heads": 2}, "grouped-query attention"),
    (DEFAULTS, {"attn_config.attn_type": "multiquery_attention"}, "grouped-query attention"),
    (DEFAULTS, {"attn_config.fused_qkv": False}, "separate tensors for queries"),
    (DEFAULTS, {"attn_config.sliding_window_size": 128}, "sliding-window attention"),
    (DEFAULTS, {"attention_bias": False}, "biases only for queries, keys and values"),
    (DEFAULTS, {"logit_scale": "inv_sqrt_d_model"}, "scaled logits"),
    (DEFAULTS, {"final_logit_softcapping": 30.0}, "capped logits"),
    (DEFAULTS, {"block_overrides.order": [1]}, "layers that differ"),
    (DEFAULTS, {"head_dim": 32}, "hidden size / heads"),
    (DEFAULTS, {"ffn_config.ffn_type": "mb_dmoe"}, "this feed-forward block"),
    (DEFAULTS, {"ffn_config.ffn_act_fn.name": "relu"}, "GELU, but the model uses relu"),
    (ALIBI, {"expansion_ratio": 2}, "four times the hidden size"),
    (ALIBI, {"attn_config.alibi_bias_max": 16}, "a different ALiBi slope"),
    (ALIBI, {"attn_config.rope": True}, "alibi and rope"),
    (ALIBI, {"ffn_config.ffn_act_fn.approximate": "tanh"}, "gelu with tanh"),
    (ROTATED, {"ffn_config.ffn_act_fn.name": "gelu"}, "SwiGLU, but the gate is gelu"),
    (ROTATED, {"attn_config.rope_hf_config.type": "linear"}, "RoPE scaling"),
    (ROTATED, {"attn_config.rope_dail_config.type": "xpos"}, "a different RoPE type"),
    (LLAMA, {"model_type": "qwen2"}, "of type 'qwen2'"),
]


@pytest.mark.parametrize(("values", "changed", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_no_class_expresses_is_refused(values: Values, changed: Values, said: str) -> None:
    model_of_saved(values, "")
    with pytest.raises(FindingsError) as refused:
        model_of_saved(values | changed, "saved/ba9")
    (finding,) = refused.value.findings
    assert finding.code == "ST-EXCHANGE-001"
    assert said in finding.rule
    assert "MptForCausalLM" in finding.fix
    assert str(finding.where) == "saved/ba9"


def test_what_no_tensor_shows_goes_to_the_configuration() -> None:
    clipped = ALIBI | {"attn_config.clip_qkv": 6, "attn_config.softmax_scale": 0.5}
    config = config_of_saved(model_of_saved(clipped, ""), clipped, "bfloat16", {})
    assert (config["attn_config"]["clip_qkv"], config["attn_config"]["softmax_scale"]) == (6, 0.5)
    tanh = model_of_saved(DEFAULTS | {"ffn_config.ffn_act_fn.approximate": "tanh"}, "")
    assert not tanh.exact_gelu
    assert model_of_saved(DEFAULTS, "").exact_gelu


def planned(*overrides: str) -> Plan:
    return load_plan(recipe("aks-mpt-125m").path, list(overrides), Catalog())[1]


def presets() -> list[str]:
    return [
        name
        for name in Catalog().names(Kind.MODELS)
        if Catalog().model(name).engine == "llm-foundry"
    ]


@pytest.mark.parametrize("name", presets())
def test_models_of_the_catalog(name: str) -> None:
    """An export holds exactly the parameters that the plan counts."""
    plan = planned(f"model.preset={name}")
    assert why_not_exported(FOUNDRY, FOUNDRY.arguments(plan)) == ""
    given = {
        setting.removeprefix("model."): value
        for setting, value in FOUNDRY.arguments(plan).items()
        if setting.startswith("model.")
    }
    model = model_of_saved(given | {"model_type": "mpt"}, name)
    entries = entries_of_saved(model, {"model_type": "mpt"})
    counted = sum(tensor.elements for tensor in hub_tensors(model.architecture, entries))
    assert counted == total_parameters(plan.model.architecture, plan.model.padded_vocab_size)


def test_a_plan_is_refused() -> None:
    options = ("model.preset=mpt-125m", "engine.options={model.attn_config.qk_ln: true}")
    assert "attn_config.qk_ln is True" in why_not_exported(
        FOUNDRY, FOUNDRY.arguments(planned(*options))
    )
    setup = setup_of(planned())
    assert engine_of(setup) == "llm-foundry"
