# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What LLM Foundry is told for a plan, and what of a plan it cannot do."""

from typing import Any

import pytest
from ruamel.yaml import YAML

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.setup import Versions
from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Resharding, Trial
from seatrial.engines.llm_foundry.checkpoints import setup_from_settings
from seatrial.engines.llm_foundry.engine import LlmFoundryEngine
from seatrial.engines.llm_foundry.settings import engine_settings, settings_words, settings_yaml
from seatrial.engines.registry import ENGINES
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.recipes.shipped import recipe
from seatrial.spec.loader import load
from tests.conftest import plan_spec

ENGINE = LlmFoundryEngine()
CATALOG = Catalog()
TRIAL = Trial("/drill", "/drill/straight", mock_tokenizer=True)


def plan_of(*overrides: str, name: str = "aks-mpt-125m") -> Plan:
    return plan_spec(load(recipe(name).path, overrides), CATALOG)


def published(name: str) -> dict[str, Any]:
    """What the published file of a model says that a plan decides.

    scripts/train/yamls/pretrain of mosaicml/llm-foundry@8c8dd48f.
    """
    sizes = {"mpt-125m": (768, 12, 12), "mpt-30b": (7168, 56, 48)}[name]
    large = name == "mpt-30b"
    return {
        "max_seq_len": 2048,
        "model.name": "mpt_causal_lm",
        "model.init_device": "meta",
        "model.d_model": sizes[0],
        "model.n_heads": sizes[1],
        "model.n_layers": sizes[2],
        "model.expansion_ratio": 4,
        "model.max_seq_len": 2048,
        "model.vocab_size": 50368,
        "model.attn_config.attn_impl": "flash",
        "tokenizer.name": "EleutherAI/gpt-neox-20b",
        "tokenizer.kwargs.model_max_length": 2048,
        "scheduler.name": "cosine_with_warmup",
        "scheduler.t_warmup": "100ba",
        "scheduler.alpha_f": 0.1,
        "optimizer.name": "decoupled_adamw",
        "optimizer.lr": 1e-4 if large else 6e-4,
        "optimizer.betas": (0.9, 0.95),
        "optimizer.eps": 1e-8,
        "optimizer.weight_decay": 0.0,
        "algorithms.gradient_clipping.clipping_threshold": 1.0,
        "global_train_batch_size": 2048 if large else 256,
        "device_train_microbatch_size": 8 if large else 16,
        "precision": "amp_bf16",
        "fsdp_config.sharding_strategy": "FULL_SHARD",
        "fsdp_config.mixed_precision": "PURE",
        "fsdp_config.activation_checkpointing": large,
        "fsdp_config.activation_checkpointing_reentrant": False,
        "fsdp_config.limit_all_gathers": True,
    }


@pytest.mark.parametrize("name", ["mpt-125m", "mpt-30b"])
def test_a_recipe_says_what_the_published_file_says(name: str) -> None:
    settings = engine_settings(plan_of(name=f"aks-{name}"))
    assert {key: settings[key] for key in published(name)} == published(name)


def test_the_documents_own_values_are_in_the_settings() -> None:
    settings = engine_settings(plan_of(name="aks-mpt-30b"))
    wanted = {
        # The document saves every 1,000 batches, which puts more than two hours at risk.
        "save_interval": "400ba",
        "fsdp_config.state_dict_type": "sharded",
    }
    assert {key: settings[key] for key in wanted} == wanted


def test_weight_decay_is_turned_into_composers() -> None:
    # Composer takes decay × lr / peak off a weight in a step, AdamW decay × lr.
    settings = engine_settings(plan_of("training.optimizer.weight_decay=0.1"))
    assert settings["optimizer.weight_decay"] == pytest.approx(0.1 * 6e-4)


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        (("parallelism.sharding=none",), {"fsdp_config.sharding_strategy": None}),
        (("parallelism.sharding=none",), {"model.init_device": "cpu"}),
        (
            ("parallelism.sharding=none", "parallelism.recompute=full"),
            {
                "fsdp_config.sharding_strategy": "NO_SHARD",
                "fsdp_config.activation_checkpointing": True,
                "fsdp_config.state_dict_type": "full",
            },
        ),
        (("training.learning_rate.style=linear",), {"scheduler.name": "linear_decay_with_warmup"}),
        (("training.learning_rate.style=constant",), {"scheduler.t_max": None}),
        (("training.learning_rate.style=inverse-square-root",), {"scheduler.t_scale": "100ba"}),
        (("training.evaluation.batches=0",), {"eval_loader.name": None, "eval_interval": 0}),
        (("training.optimizer.clip_grad_norm=0",), {"algorithms.gradient_clipping": None}),
        (("training.init_std=0.006",), {"model.init_config.init_std": 0.006}),
        (("monitoring.tensorboard=false",), {"loggers.tensorboard.log_dir": None}),
        (("monitoring.wandb={project: mine}",), {"loggers.wandb.project": "mine"}),
        (
            ("engine.options={fsdp_config.mixed_precision: DEFAULT}",),
            {"fsdp_config.mixed_precision": "DEFAULT"},
        ),
        (("training.hidden_dropout=0.1",), {"model.resid_pdrop": 0.1, "model.emb_pdrop": 0.1}),
    ],
)
def test_a_field_becomes_a_setting(overrides: tuple[str, ...], wanted: dict[str, Any]) -> None:
    settings = engine_settings(plan_of(*overrides))
    assert {key: settings.get(key) for key in wanted} == wanted


DIMENSIONS = "layers: 2, hidden_size: 64, heads: 4, vocab_size: 1000, max_positions: 128"


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("kv_heads: 2", {"model.attn_config.attn_type": "grouped_query_attention"}),
        ("positions: alibi", {"model.attn_config.alibi": True}),
        ("positions: rope", {"model.attn_config.rope_theta": 10000}),
        ("linear_bias: false, norm: layernorm-no-bias", {"model.no_bias": True}),
        ("norm: rmsnorm", {"model.norm_type": "low_precision_rmsnorm"}),
        ("activation: swiglu", {"model.ffn_config.ffn_type": "mptglu"}),
        ("tied_embeddings: false", {"model.tie_word_embeddings": False}),
        ("ffn_hidden_size: 96", {"model.expansion_ratio": 1.5}),
        ("qkv_bias: true", {"model.no_bias": None}),
    ],
)
def test_a_custom_model_is_built_by_its_dimensions(more: str, wanted: dict[str, Any]) -> None:
    model = f"model={{dimensions: {{family: mpt, {DIMENSIONS}, {more}}}}}"
    plan = plan_of(model, "training.sequence_length=128")
    settings = engine_settings(plan)
    assert ENGINE.plan_problems(plan) == []
    assert {key: settings.get(key) for key in wanted} == wanted


def test_a_size_that_no_ratio_gives_is_said_itself() -> None:
    """LLM Foundry cuts 704 × (1920 / 704) to 1919."""
    sizes = "layers: 2, hidden_size: 704, heads: 4, vocab_size: 1000, max_positions: 128"
    more = "family: mpt, ffn_hidden_size: 1920"
    settings = engine_settings(
        plan_of(f"model={{dimensions: {{{sizes}, {more}}}}}", "training.sequence_length=128")
    )
    assert settings["model.ffn_config.ffn_hidden_size"] == 1920
    assert "model.expansion_ratio" not in settings
    found = setup_from_settings(settings, Versions("0", "engine", "torch"), 1)
    assert found.model.ffn_hidden_size == 1920


LLAMA = (
    f"model={{dimensions: {{family: llama, {DIMENSIONS}{{more}}}}}}",
    *("data.tokenizer=hf://meta-llama/Llama-2-7b-hf", "training.sequence_length=128"),
)


def llama(more: str = "") -> tuple[str, ...]:
    """A Llama of own dimensions."""
    return tuple(word.replace("{more}", f", {more}" if more else "") for word in LLAMA)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ("norm: layernorm", "model.dimensions.norm"),
        ("activation: gelu", "model.dimensions.activation"),
        ("linear_bias: true", "model.dimensions.linear_bias"),
        ("positions: learned", "model.dimensions.positions"),
        ("", None),
        ("qkv_bias: true", None),
    ],
)
def test_what_the_hubs_code_would_not_hear_of_is_refused(more: str, field: str | None) -> None:
    found = ENGINE.plan_problems(plan_of(*llama(more)))
    assert [problem.field for problem in found] == ([field] if field else [])


def test_a_llama_of_own_dimensions_has_all_that_the_spec_says() -> None:
    words = ("training.attention_dropout=0.1", "training.init_std=0.01")
    settings = engine_settings(plan_of(*llama("head_dim: 32"), *words))
    wanted = {"head_dim": 32, "attention_dropout": 0.1, "initializer_range": 0.01}
    assert {name: settings[f"model.config_overrides.{name}"] for name in wanted} == wanted
    plain = engine_settings(plan_of(*llama()))
    assert not any(f"model.config_overrides.{name}" in plain for name in wanted)
    (problem,) = ENGINE.plan_problems(plan_of(*llama(), "training.hidden_dropout=0.1"))
    assert problem.field == "training.hidden_dropout"


def test_a_llama_goes_through_hugging_faces_code() -> None:
    plan = plan_of("model={preset: llama2-7b}", "data.tokenizer=hf://meta-llama/Llama-2-7b-hf")
    settings = engine_settings(plan)
    assert ENGINE.plan_problems(plan) == []
    assert settings["model.name"] == "hf_causal_lm"
    assert settings["model.pretrained_model_name_or_path"] == "meta-llama/Llama-2-7b-hf"
    assert settings["model.pretrained"] is False
    assert settings["model.config_overrides.num_hidden_layers"] == 32


REST = "pp_size: 1, cp_size: 1, sharding: fsdp, recompute: none"


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("model={preset: gpt3-125m}", "model.preset"),
        (f"parallelism={{tp_size: 2, sequence_parallel: false, {REST}}}", "parallelism.tp_size"),
        ("parallelism.sharding=optimizer", "parallelism.sharding"),
        ("parallelism.recompute=selective", "parallelism.recompute"),
        ("training.precision=fp8", "training.precision"),
        ("training.deterministic=true", "training.deterministic"),
        ("checkpoints.asynchronous=true", "checkpoints.asynchronous"),
        ("initial_weights={checkpoint: 's3://bucket/ba500'}", "initial_weights.checkpoint"),
        ("data.location=abfs://container@account/data", "data.location"),
        ("data.sources=[{prepared: 'az://container/mds'}]", "data.sources[0].prepared"),
        ("data.tokenizer=/data/tokenizers/gpt2.json", "data.tokenizer"),
        ("data.tokenizer=/data/sp.model", "data.tokenizer"),
        (
            "training.learning_rate={style: wsd, anneal: {fraction: 0.1}}",
            "training.learning_rate.style",
        ),
        (
            f"model={{dimensions: {{family: mpt, {DIMENSIONS}, linear_bias: false}}}}",
            "model.dimensions.norm",
        ),
        (
            "model={dimensions: {family: mpt, linear_bias: false, norm: layernorm-no-bias, "
            f"qkv_bias: true, {DIMENSIONS}}}}}",
            "model.dimensions.qkv_bias",
        ),
        (
            f"model={{dimensions: {{family: mpt, {DIMENSIONS}, qk_norm: true}}}}",
            "model.dimensions.qk_norm",
        ),
        *(
            (
                f"model={{dimensions: {{family: {family}, {DIMENSIONS}, {name}: {value}{more}}}}}",
                f"model.dimensions.{name}",
            )
            for family, more in (("llama", ""), ("mpt", ", positions: rope"))
            for name, value in (
                ("norm_epsilon", "1.0e-6"),
                ("norm_centered_at_one", "true"),
                ("rope_scaling", "{kind: linear, factor: 2}"),
                ("rotary_fraction", "0.5"),
                ("no_rope_every", "2"),
                ("window", "{tokens: 8}"),
                ("attention_sinks", "true"),
                ("mtp_layers", "1"),
                ("activation", "squared-relu"),
            )
        ),
        (
            "model={dimensions: {family: llama, latent_attention: {kv_rank: 8, qk_head_dim: 8, "
            f"rope_head_dim: 8, value_head_dim: 8}}, {DIMENSIONS}}}}}",
            "model.dimensions.latent_attention",
        ),
    ],
)
def test_what_it_cannot_do_is_said_at_the_field(override: str, field: str) -> None:
    found = ENGINE.plan_problems(plan_of(override, "training.sequence_length=128"))
    assert field in {problem.field for problem in found}
    assert all(problem.code is EngineCode.UNSUPPORTED for problem in found)


@pytest.mark.parametrize(
    "override",
    [
        "data.location=s3://bucket/data",
        "data.sources=[{prepared: 'gs://bucket/mds'}]",
        "initial_weights={checkpoint: /data/other/ba500}",
        "data.tokenizer=/data/tokenizer.json",
    ],
)
def test_what_it_can_do_is_not_refused(override: str) -> None:
    assert ENGINE.plan_problems(plan_of(override)) == []


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ("/data/tokenizer.json", "/data"),
        ("tokenizer.json", "."),
        ("/data/tokenizer", "/data/tokenizer"),
        ("hf://gpt2@main", "gpt2"),
    ],
)
def test_the_loader_gets_the_directory_of_a_tokenizer(given: str, passed_on: str) -> None:
    assert engine_settings(plan_of(f"data.tokenizer={given}"))["tokenizer.name"] == passed_on


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("max_duration", EngineCode.MODELLED_OPTION),
        ("device_train_microbatch_size", EngineCode.MODELLED_OPTION),
        ("fsdp_config.sharding_strategy", EngineCode.MODELLED_OPTION),
        ("save_overwrite", EngineCode.DERIVED_OPTION),
        ("max_durations", EngineCode.UNKNOWN_OPTION),
        ("fsdp_config.limit_all_gather", EngineCode.UNKNOWN_OPTION),
        ("seed.more", EngineCode.UNKNOWN_OPTION),
        ("callbacks", EngineCode.OPTION_VALUE),
        ("fsdp_config.limit_all_gathers", None),
        ("train_loader.dataset.split", None),
        ("dist_timeout", None),
        ("tp_config.strategy", EngineCode.DERIVED_OPTION),
        ("train_loader.dataset.streams.more.remote", EngineCode.MODELLED_OPTION),
        ("eval_loader.dataset.local", EngineCode.MODELLED_OPTION),
        ("optimizer.name", EngineCode.DERIVED_OPTION),
        ("fsdp_config.data_parallel_shard_degree", EngineCode.DERIVED_OPTION),
        ("model.d_modle", EngineCode.UNKNOWN_OPTION),
        ("model.attn_config.clip_qvk", EngineCode.UNKNOWN_OPTION),
        ("model.attn_config.clip_qkv", None),
        ("optimizer.weight_dcay", EngineCode.UNKNOWN_OPTION),
        ("train_loader.dataset.predownlaod", EngineCode.UNKNOWN_OPTION),
        ("train_loader.datasett.shuffle", EngineCode.UNKNOWN_OPTION),
        ("fsdp_config.something_else", EngineCode.UNKNOWN_OPTION),
        ("callbacks.hf_checkpointer.save_interval", EngineCode.UNCHECKED_OPTION),
        ("optimizer.outlier_threshold", EngineCode.UNCHECKED_OPTION),
        ("metadata.anything", None),
    ],
)
def test_options_are_known(option: str, code: EngineCode | None) -> None:
    found = ENGINE.option_problems({option: 1})
    assert [problem.code for problem in found] == ([code] if code else [])


@pytest.mark.parametrize("sharding", ["none", "fsdp"])
def test_an_option_does_not_turn_on_fsdp(sharding: str) -> None:
    given = "engine.options={fsdp_config.verbose: true}"
    found = ENGINE.plan_problems(plan_of(f"parallelism.sharding={sharding}", given))
    wanted = ["engine.options.fsdp_config.verbose"] if sharding == "none" else []
    assert [problem.field for problem in found] == wanted


def test_every_setting_of_a_plan_is_one_that_exists() -> None:
    # An option of that name is then either allowed or the plan's own, and never unknown.
    settings = engine_settings(plan_of("monitoring.wandb={project: mine}"))
    found = ENGINE.option_problems(dict.fromkeys(settings, 1))
    assert EngineCode.UNKNOWN_OPTION not in {problem.code for problem in found}


def test_words_and_file_say_the_same() -> None:
    settings = engine_settings(plan_of())
    read = YAML(typ="safe")
    file = read.load(settings_yaml(settings))
    for word in settings_words(settings):
        name, _, value = word.partition("=")
        inside = file
        for section in name.split("."):
            inside = inside[section]
        assert read.load(value) == inside, name


def test_a_file_holds_nothing_that_is_told_to_the_worker() -> None:
    told = ENGINE.arguments(plan_of("data={mock: true}"))
    assert any(name.startswith("worker.") for name in told)
    text = ENGINE.text(told)
    assert text.startswith("# Seatrial's worker creates the data and the tokenizer")
    assert "worker" not in YAML(typ="safe").load(text)


def test_numbers_have_a_point_for_old_parsers() -> None:
    assert settings_words({"optimizer.eps": 1e-8}) == ["optimizer.eps=1.0e-08"]


def test_texts_that_look_like_something_else_are_quoted() -> None:
    assert settings_words({"run_name": "on", "a": "1e3"}) == ['run_name="on"', 'a="1e3"']


def test_a_pod_copies_data_to_its_own_disk() -> None:
    plan = plan_of()
    told = ENGINE.pod_arguments(plan, on_cpu=False, scratch="/scratch")
    place = f"{plan.data_location}/mds-2048-98-2-0"
    assert told["train_loader.dataset.remote"] == place
    assert told["train_loader.dataset.local"] == "/scratch/data"
    here = ENGINE.pod_arguments(plan, on_cpu=False, scratch="")
    assert here["train_loader.dataset.local"] == place
    assert "train_loader.dataset.remote" not in here


def test_several_sources_become_streams() -> None:
    sources = "data.sources=[{prepared: /a, weight: 3}, {prepared: /b, weight: 1}]"
    settings = engine_settings(plan_of(sources))
    stream = "train_loader.dataset.streams.source-0"
    assert (settings[f"{stream}.local"], settings[f"{stream}.proportion"]) == ("/a", 3)
    assert settings[f"{stream}.split"] == "train"


def test_a_drill_needs_no_gpu_and_no_network() -> None:
    plan = plan_of("data={mock: true}")
    told = ENGINE.trial_arguments(plan, TRIAL)
    assert told["model.attn_config.attn_impl"] == "torch"
    assert told["precision"] == "fp32"
    assert told["train_loader.num_workers"] == 1
    assert told["tokenizer.name"] == "/drill/mock/tokenizer"
    assert told["save_folder"] == "/drill/straight"
    assert "loggers.tensorboard.log_dir" not in told


@pytest.mark.parametrize(
    ("sharding", "path"),
    [("fsdp", "ba10"), ("none", "ba10/rank0.pt")],
)
def test_resharding_loads_and_saves_nothing(sharding: str, path: str) -> None:
    plan = plan_of("data={mock: true}", f"parallelism.sharding={sharding}")
    trial = Trial("/drill", "/drill/straight", True, Resharding(10, Layout(dp_size=4)))
    told = ENGINE.trial_arguments(plan, trial)
    assert told["load_path"] == f"/drill/straight/{path}"
    assert "save_folder" not in told
    assert "autoresume" not in told


def test_every_engine_is_whole() -> None:
    for name, engine in ENGINES.items():
        assert engine.name == name
        assert engine.version in engine.package


def test_validation_asks_for_no_kernel_of_a_gpu() -> None:
    told = LlmFoundryEngine().verdict_arguments(plan_of())
    assert told["model.loss_fn"] == "torch_crossentropy"
    assert told["model.attn_config.attn_impl"] == "torch"
    assert told["model.init_device"] == "meta"
    model = plan_of("model={preset: llama2-7b}", "data.tokenizer=hf://meta-llama/Llama-2-7b-hf")
    assert "model.loss_fn" not in LlmFoundryEngine().verdict_arguments(model)
