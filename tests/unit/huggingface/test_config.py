# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Published config.json files: what is read of them, what is refused, and what is written."""

from typing import Any

import pytest

from seatrial.catalog.published import published_model
from seatrial.errors import FindingsError
from seatrial.huggingface.config import (
    NoHubClass,
    model_type_for,
    read_config,
    write_config,
)
from seatrial.huggingface.tables import TABLES
from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import Balancing, MixtureOfExperts
from tests.unit.huggingface.published import PUBLISHED, mutated

MUTATED = mutated(100, seed=5)


def changed(name: str, **changes: Any) -> dict[str, Any]:
    """A published configuration with some fields changed; one that is set to ... is removed."""
    config = PUBLISHED[name] | changes
    return {key: value for key, value in config.items() if value is not ...}


def read(name: str, **changes: Any) -> Architecture:
    """The architecture of a changed configuration."""
    return read_config(changed(name, **changes), "config.json").architecture


def refused(name: str, **changes: Any) -> tuple[str, str, str]:
    """Code, field and rule of what is refused."""
    with pytest.raises(FindingsError) as error:
        read(name, **changes)
    (finding,) = error.value.findings
    assert finding.where.file == "config.json"
    assert finding.fix
    return finding.code, finding.where.field, finding.rule


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_field_is_read_or_ignored_for_a_reason(name: str) -> None:
    model = read_config(PUBLISHED[name], name)
    assert model.ignored is not None
    assert all(model.ignored.values())
    # A field that nobody knows is not passed over.
    assert refused(name, sparkle_factor=2)[:2] == ("ST-HUB-003", "sparkle_factor")


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_written_is_read_as_the_same_model(name: str) -> None:
    model = read_config(PUBLISHED[name], name)
    written = write_config(model.model_type, model.architecture, init_std=model.init_std)
    again = read_config(written, "written")
    assert (again.architecture, again.init_std) == (model.architecture, model.init_std)
    kind = model_type_for(model.architecture)
    assert isinstance(kind, NoHubClass) == bool(model.differences)
    if isinstance(kind, str):
        other = read_config(write_config(kind, model.architecture), "written").architecture
        assert other == model.architecture


@pytest.mark.parametrize("number", range(len(MUTATED)))
def test_changed_models_come_back_too(number: int) -> None:
    model = read_config(MUTATED[number], "mutated")
    written = write_config(model.model_type, model.architecture)
    assert read_config(written, "written").architecture == model.architecture


def test_the_new_spelling_of_rotary_settings_means_the_same() -> None:
    old = PUBLISHED["llama-3.1-8b"]
    new = {**old["rope_scaling"], "rope_theta": old["rope_theta"]}
    same = read("llama-3.1-8b", rope_scaling=..., rope_theta=..., rope_parameters=new)
    assert same == published_model("llama-3.1-8b").architecture
    assert same.rope_scaling is not None
    assert (same.rope_scaling.kind, same.rope_scaling.factor) == ("llama3", 8)
    half = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}
    glm = read("glm-4.5", rope_scaling=..., rope_theta=..., rope_parameters=half)
    assert glm == published_model("glm-4.5").architecture


def test_parts_of_a_mixture_of_experts_are_read() -> None:
    v3 = published_model("deepseek-v3").architecture
    assert v3.moe is not None
    assert v3.latent_attention is not None
    assert (v3.moe.experts, v3.moe.top_k, v3.moe.dense_layers) == (256, 8, 3)
    assert (v3.moe.groups, v3.moe.groups_per_token, v3.moe.scaling_factor) == (8, 4, 2.5)
    assert (v3.moe.expert_bias, v3.moe.balancing, v3.mtp_layers) == (True, Balancing.NONE, 1)
    kimi = published_model("kimi-k2").architecture
    assert kimi.moe is not None
    assert (kimi.moe.balancing, kimi.moe.aux_loss_coefficient) == (Balancing.SEQUENCE, 0.001)
    assert kimi.moe.groups is None
    oss = published_model("gpt-oss-20b").architecture
    assert oss.window is not None
    assert (oss.window.tokens, oss.window.full_every, oss.attention_sinks) == (128, 2, True)
    # Its router_aux_loss_coef of 0.9 is ignored.
    assert oss.moe is not None
    assert (
        oss.moe.aux_loss_coefficient
        == MixtureOfExperts.model_fields["aux_loss_coefficient"].default
    )
    assert "router_aux_loss_coef" not in write_config("gpt_oss", oss)
    qwen = read("qwen3-30b-a3b", decoder_sparse_step=2, num_hidden_layers=8).moe
    assert qwen is not None
    assert [qwen.has_experts(layer) for layer in range(4)] == [False, True, False, True]


def test_a_window_is_read_by_layer() -> None:
    types = ["sliding_attention"] * 3 + ["full_attention"]
    given = {"num_hidden_layers": 8, "use_sliding_window": True, "sliding_window": 512}
    window = read("qwen3-8b", layer_types=types * 2, **given).window
    assert window is not None
    assert (window.tokens, window.full_every) == (512, 4)
    assert refused("qwen3-8b", layer_types=types[::-1] * 2, **given)[1] == "layer_types"
    # The first layers without a window, the others with one.
    assert refused("qwen3-8b", max_window_layers=4, **given)[1] == "layer_types"
    # Transformers has no window, even if it is turned on.
    assert read("qwen3-8b", use_sliding_window=True, sliding_window=None).window is None
    assert read("mistral-7b-v0.1").window is not None
    assert read("mistral-7b-v0.1", sliding_window=None).window is None
    # Transformers has a window of 4096 if the field is missing.
    missing = read("mistral-7b-v0.3", sliding_window=...).window
    assert missing is not None
    assert missing.tokens == 4096
    # As long as the model's sequences; those of a run may be longer.
    whole = read("mistral-7b-v0.1", max_position_embeddings=4096).window
    assert whole is not None
    assert whole.tokens == 4096


@pytest.mark.parametrize(
    ("name", "changes", "code", "field"),
    [
        ("llama-3.2-1b", {"hidden_size": ...}, "ST-HUB-004", "hidden_size"),
        ("llama-3.2-1b", {"hidden_size": "2048"}, "ST-HUB-004", "hidden_size"),
        ("llama-3.2-1b", {"hidden_size": True}, "ST-HUB-004", "hidden_size"),
        ("llama-3.2-1b", {"hidden_size": -2048}, "ST-HUB-004", "hidden_size"),
        ("llama-3.2-1b", {"num_attention_heads": 30}, "ST-HUB-002", "hidden_size"),
        ("llama-3.2-1b", {"num_key_value_heads": 5}, "ST-HUB-004", "num_key_value_heads"),
        ("llama-3.2-1b", {"rms_norm_eps": 0}, "ST-HUB-004", "rms_norm_eps"),
        ("mistral-7b-v0.1", {"num_attention_heads": 24}, "ST-HUB-004", "num_attention_heads"),
        ("mistral-7b-v0.1", {"sliding_window": -1}, "ST-HUB-004", "sliding_window"),
        ("deepseek-v3", {"first_k_dense_replace": 61}, "ST-HUB-004", "first_k_dense_replace"),
        ("deepseek-v3", {"n_group": 7}, "ST-HUB-004", "n_group"),
        ("llama-3.2-1b", {"attention_bias": True}, "ST-HUB-002", "attention_bias"),
        ("llama-3.2-1b", {"hidden_act": "gelu"}, "ST-HUB-002", "hidden_act"),
        ("llama-3.2-1b", {"rope_theta": 10000.5}, "ST-HUB-002", "rope_theta"),
        ("llama-3.2-1b", {"partial_rotary_factor": 0.5}, "ST-HUB-002", "partial_rotary_factor"),
        (
            "llama-3.2-1b",
            {"rope_scaling": {"type": "dynamic", "factor": 2}},
            "ST-HUB-002",
            "rope_scaling",
        ),
        (
            "llama-3.2-1b",
            {"rope_scaling": {"type": "yarn", "factor": 2, "attention_factor": 1.5}},
            "ST-HUB-002",
            "rope_scaling",
        ),
        ("llama-3.2-1b", {"rope_theta": 10**400}, "ST-HUB-004", "rope_theta"),
        ("starcoder2-7b", {"hidden_act": ["gelu"]}, "ST-HUB-004", "hidden_act"),
        ("smollm3-3b", {"no_rope_layer_interval": 0}, "ST-HUB-004", "no_rope_layer_interval"),
        ("gpt2", {"initializer_range": -1.0}, "ST-HUB-004", "initializer_range"),
        ("glm-4.5", {"partial_rotary_factor": 0}, "ST-HUB-004", "partial_rotary_factor"),
        ("gpt-oss-20b", {"sliding_window": None}, "ST-HUB-002", "layer_types"),
        ("phi-4", {"rope_scaling": {"type": "longrope"}}, "ST-HUB-002", "rope_scaling"),
        ("qwen2.5-7b", {"use_mrope": True}, "ST-HUB-002", "use_mrope"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [3]}, "ST-HUB-002", "mlp_only_layers"),
        ("qwen3-30b-a3b", {"num_local_experts": 64}, "ST-HUB-002", "num_local_experts"),
        ("deepseek-v3", {"q_lora_rank": ...}, "ST-HUB-004", "q_lora_rank"),
        ("deepseek-v3", {"routed_scaling_factor": ...}, "ST-HUB-004", "routed_scaling_factor"),
        ("deepseek-v3", {"n_group": ...}, "ST-HUB-004", "n_group"),
        ("deepseek-v3", {"topk_group": None}, "ST-HUB-004", "topk_group"),
        ("deepseek-v3", {"topk_method": "greedy"}, "ST-HUB-002", "topk_method"),
        ("deepseek-v3", {"num_key_value_heads": 8}, "ST-HUB-002", "num_key_value_heads"),
        ("deepseek-v3", {"attention_bias": True}, "ST-HUB-002", "attention_bias"),
        ("deepseek-v2", {"norm_topk_prob": True}, "ST-HUB-002", "norm_topk_prob"),
        ("gpt-oss-20b", {"swiglu_limit": 8.0}, "ST-HUB-002", "swiglu_limit"),
        ("gpt2", {"activation_function": "relu"}, "ST-HUB-002", "activation_function"),
        ("smollm3-3b", {"use_sliding_window": True}, "ST-HUB-002", "use_sliding_window"),
        ("gpt2", {"architectures": ["GPT2Model"]}, "ST-HUB-002", "architectures"),
        ("gpt2", {"architectures": "GPT2LMHeadModel"}, "ST-HUB-004", "architectures"),
        ("gpt2", {"model_type": "gemma2"}, "ST-HUB-001", "model_type"),
        ("gpt2", {"model_type": "mamba2"}, "ST-HUB-001", "model_type"),
        ("gpt2", {"model_type": "nobody"}, "ST-HUB-001", "model_type"),
        ("gpt2", {"model_type": ...}, "ST-HUB-001", "model_type"),
    ],
)
def test_what_the_engine_has_not_is_refused(
    name: str, changes: dict[str, Any], code: str, field: str
) -> None:
    assert refused(name, **changes)[:2] == (code, field)


def test_a_file_may_leave_out_its_class_and_its_remote_code_is_ignored() -> None:
    missing: tuple[Any, ...] = (..., None, [])
    for classes in missing:
        assert read("kimi-k2", architectures=classes) == read("kimi-k2")
    assert read("kimi-k2", auto_map={"AutoModel": "other.Model"}) == read("kimi-k2")


@pytest.mark.parametrize(
    ("rotary", "code", "field"),
    [
        ({"rope_theta": "abc"}, "ST-HUB-004", "rope_parameters.rope_theta"),
        ({"rope_theta": 0}, "ST-HUB-004", "rope_theta"),
        ({"partial_rotary_factor": "0.5"}, "ST-HUB-004", "rope_parameters.partial_rotary_factor"),
        ({"partial_rotary_factor": [1]}, "ST-HUB-004", "rope_parameters.partial_rotary_factor"),
        ({"rope_type": "linear", "factor": True}, "ST-HUB-004", "rope_parameters.factor"),
        ({"rope_type": "yarn", "factor": 2, "truncate": 1}, "ST-HUB-004", None),
        ({"rope_type": "linear"}, "ST-HUB-002", "rope_parameters"),
        ({"rope_type": "default", "factor": 2}, "ST-HUB-002", "rope_parameters"),
        ({"mrope_section": [16, 24, 24]}, "ST-HUB-002", "rope_parameters"),
        ({"rope_type": "default", "type": "mrope"}, "ST-HUB-002", "rope_parameters"),
        ({"rope_type": "yarn", "factor": 2, "mscale": 0.7}, "ST-HUB-002", "rope_parameters"),
        (
            {"rope_type": "yarn", "factor": 2, "mscale": 0.0, "mscale_all_dim": 1.0},
            "ST-HUB-002",
            "rope_parameters",
        ),
    ],
)
def test_malformed_rotary_settings_are_refused(
    rotary: dict[str, Any], code: str, field: str | None
) -> None:
    found = refused("llama-3.2-1b", rope_scaling=..., rope_theta=..., rope_parameters=rotary)
    assert found[:2] == (code, field or "rope_parameters.truncate")


def test_rotary_settings_that_disagree_are_refused() -> None:
    old = PUBLISHED["llama-3.2-1b"]["rope_scaling"]
    assert read("llama-3.2-1b", rope_parameters=old) == read("llama-3.2-1b")
    for new in ({**old, "factor": 8.0}, {"rope_type": "default"}):
        said = refused("llama-3.2-1b", rope_parameters=new)
        assert said[1] == "rope_scaling"
        assert said[2].endswith("is not supported: rope_scaling and rope_parameters disagree.")
    said = refused("llama-3.2-1b", rope_parameters={**old, "rope_theta": 7})
    rule = "rope_theta: 500000.0, 7.0 is not supported: rope_theta and rope_parameters.rope_theta "
    assert said[1:] == ("rope_theta", f"{rule}disagree.")


@pytest.mark.parametrize("given", [{}, {"mscale": 1}, {"mscale": 0, "mscale_all_dim": 0.0}])
def test_mscale_that_transformers_ignores_changes_nothing(given: dict[str, float]) -> None:
    scaling = read("llama-3.2-1b", rope_scaling={"type": "yarn", "factor": 2, **given}).rope_scaling
    assert scaling is not None
    assert (scaling.mscale, scaling.mscale_all_dim) == (1, 0)


@pytest.mark.parametrize("name", ["qwen3-8b", "qwen3-30b-a3b", "smollm3-3b"])
def test_a_million_layers_are_refused_at_once(name: str) -> None:
    said = refused(name, num_hidden_layers=10**9)
    rule = "num_hidden_layers must be at most 10,000, not 1000000000."
    assert said[1:] == ("num_hidden_layers", rule)


@pytest.mark.parametrize(
    ("name", "changes", "rule"),
    [
        (
            "llama-3.2-1b",
            {"hidden_act": "gelu"},
            "hidden_act: gelu is not supported: for this model type, the engine supports SwiGLU.",
        ),
        (
            "llama-3.2-1b",
            {"num_hidden_layers": "36"},
            'num_hidden_layers must be an integer, not "36".',
        ),
        (
            "llama-3.2-1b",
            {"rms_norm_eps": 0},
            "rms_norm_eps should be greater than 0, not 0.0.",
        ),
        (
            "llama-3.2-1b",
            {"rope_scaling": {"rope_type": "ntk", "factor": 2}},
            "rope_scaling: ntk is not supported: the engine supports the rotary scalings linear, "
            "yarn, llama3.",
        ),
        (
            "phi-4",
            {"rope_scaling": {"rope_type": "linear", "factor": 2}},
            "rope_scaling: linear is not supported: the transformers class does not support this "
            "rotary scaling.",
        ),
        (
            "gpt-oss-20b",
            {"layer_types": ["full_attention"] * 3},
            'layer_types: ["full_attention", "full_attention", "full_attention"] is not supported: '
            "it has 3 entries for 24 layers.",
        ),
    ],
)
def test_a_refusal_shows_the_value(name: str, changes: dict[str, Any], rule: str) -> None:
    assert refused(name, **changes)[2] == rule


def test_a_long_value_is_shortened() -> None:
    rule = refused("gpt-oss-20b", layer_types=["full_attention"] * 1000)[2]
    assert "… is not supported: it has 1000 entries" in rule
    assert len(rule) < 150


def test_quantised_weights_are_noticed() -> None:
    config = PUBLISHED["gpt-oss-20b"]
    assert read_config(config, "config.json").quantized
    assert not read_config(config | {"quantization_config": None}, "config.json").quantized


def test_a_refused_type_says_why() -> None:
    assert "a norm after them" in refused("gpt2", model_type="olmo2")[2]
    assert "does not run on a CPU" in refused("gpt2", model_type="nemotron_h")[2]
    assert "layers without attention" in refused("gpt2", model_type="mamba2")[2]
    assert "has a gate" in refused("gpt2", model_type="qwen2_moe")[2]
    assert "not the config.json of a model" in refused("gpt2", model_type=...)[2]


def test_models_that_the_engine_changes_cannot_be_exchanged() -> None:
    lite = published_model("deepseek-v2-lite")
    assert len(lite.differences) == 1
    assert "trainable norm" in lite.differences[0]
    grouped = published_model("deepseek-v2")
    assert "best 1, the engine by its best 2" in grouped.differences[0]
    kind = model_type_for(grouped.architecture)
    assert isinstance(kind, NoHubClass)
    assert kind.reason == f"{grouped.differences[0]}."
    scaling = {**PUBLISHED["kimi-k2"]["rope_scaling"], "truncate": False}
    kimi = read_config(PUBLISHED["kimi-k2"] | {"rope_scaling": scaling}, "kimi-k2")
    assert "rounds" in kimi.differences[0]


def test_the_closest_class_is_named_with_what_it_lacks() -> None:
    model = published_model("qwen3-8b").architecture
    kind = model_type_for(model.replace(norm="layernorm"))
    assert kind == NoHubClass(
        "Qwen3ForCausalLM, the closest class, does not support norm: layernorm."
    )
    assert model_type_for(model.replace(mtp_layers=1)) == "qwen3"
    assert model_type_for(model.replace(qk_norm=False)) == "llama"


def test_a_written_file_names_its_class_and_its_tokens() -> None:
    model = published_model("gpt2")
    config = write_config(
        "gpt2", model.architecture, exact_gelu=True, dtype="float32", tokens={"eos_token_id": 7}
    )
    assert (config["architectures"], config["torch_dtype"]) == (["GPT2LMHeadModel"], "float32")
    assert (config["bos_token_id"], config["eos_token_id"]) == (None, 7)
    assert read_config(config, "written").exact_gelu
    assert not model.exact_gelu
    assert all(table.class_name for table in TABLES.values())
