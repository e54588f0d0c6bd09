# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A plan becomes the engine's command line."""

import json
import re

import pytest

from seatrial.engines.engine import ShortRun, Trial
from seatrial.engines.megatron.command_line import command_line, engine_arguments
from seatrial.engines.megatron.flags_from_spec import FLAGS
from seatrial.engines.megatron.parser_options import Takes, known_options
from seatrial.planning.layout import Layout
from seatrial.spec.model_parts import MixtureOfExperts
from tests.conftest import MEGATRON, resolved


def words(*overrides: str) -> str:
    """The command line of the good spec with overrides."""
    return " ".join(command_line(engine_arguments(resolved(*overrides))))


def test_flags_are_unique_and_of_the_engine() -> None:
    names = [flag.name for flag in FLAGS]
    assert len(names) == len(set(names))
    assert set(names) <= set(known_options())


def test_every_flag_gets_what_it_takes() -> None:
    arguments = engine_arguments(resolved())
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        takes = known_options()[name].takes
        assert (value is True) == (takes is Takes.SWITCH), name


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 1"),
        ((), "--sequence-parallel --use-distributed-optimizer"),
        ((), "--train-iters 1000"),
        (("training.steps=null", "training.samples=2048000"), "--train-samples 2048000"),
        (("training.precision=fp16",), "--fp16"),
        (
            ("training.learning_rate={style: wsd, anneal: {fraction: 0.1}}",),
            "--lr-wsd-decay-iters 100 --lr-wsd-decay-style linear",
        ),
        (
            ("training.learning_rate={style: wsd, anneal: {steps: 9}, anneal_style: cosine}",),
            "--lr-wsd-decay-iters 9 --lr-wsd-decay-style cosine",
        ),
        (
            (
                "training.learning_rate={style: wsd, anneal: {steps: 9}, "
                "anneal_style: minus-square-root}",
            ),
            "--lr-wsd-decay-style minus_sqrt",
        ),
        (
            ("training.optimizer={name: muon, muon: {extra_scale: 0.2}}",),
            "--optimizer muon --muon-momentum 0.95 --muon-nesterov --muon-scale-mode spectral "
            "--muon-extra-scale-factor 0.2 --muon-num-ns-steps 5 --muon-tp-mode distributed",
        ),
        (("model.preset=llama3-8b",), "--group-query-attention --num-query-groups 8"),
        (("model.preset=llama3-8b",), "--rotary-base 500000"),
        (("model.preset=llama3-8b",), "--untie-embeddings-and-output-weights"),
        (
            ("parallelism.recompute=full",),
            "--recompute-granularity full --recompute-method uniform",
        ),
        (
            (
                "parallelism.recompute=selective",
                "parallelism.recompute_modules=[layernorm, core_attn]",
            ),
            "--recompute-granularity selective --recompute-modules layernorm core_attn",
        ),
        (
            (
                "parallelism.pp_size=2",
                "parallelism.embedding_as_layer=true",
                "parallelism.loss_as_layer=true",
            ),
            "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
        ),
        (
            ("data={sources: [{prepared: /d/a, weight: 3}, {prepared: /d/b, weight: 1.5}]}",),
            "--data-path 3 /d/a 1.5 /d/b",
        ),
        (("data={sources: [{from: s3://b/c}]}",), "--data-args-path /data/slim-7b/data/blend.txt"),
        (("engine.options.cuda-graph-modules=[attn, mlp]",), "--cuda-graph-modules attn mlp"),
        (("engine.options.manual_gc=true",), "--manual-gc"),
    ],
)
def test_fields_become_flags(overrides: tuple[str, ...], expected: str) -> None:
    assert expected in words(*overrides)


def test_a_schedule_counts_what_the_length_counts() -> None:
    samples = words("training.steps=null", "training.samples=2048000")
    assert "--lr-decay-samples 2048000" in samples
    assert "iters" not in samples.replace("--eval-iters", "")
    assert "samples" not in words()


def flags_of(**changes: object) -> dict[str, object]:
    """The flags that a model has beyond those of a plain one, and those that have other values."""
    sizes = "layers: 8, hidden_size: 512, heads: 8, vocab_size: 1000, max_positions: 4096"
    parts = "".join(f", {name}: {json.dumps(value)}" for name, value in changes.items())
    tp = "parallelism.tp_size=2"

    def arguments(parts: str) -> dict[str, object]:
        dimensions = f"model={{dimensions: {{family: llama, {sizes}{parts}}}}}"
        return dict(engine_arguments(resolved(dimensions, tp)))

    plain = arguments("")
    return {
        name: value
        for name, value in arguments(parts).items()
        if value != plain.get(name) and (value or plain.get(name))
    }


LATENT = {"kv_rank": 64, "q_rank": 96, "qk_head_dim": 32, "rope_head_dim": 16, "value_head_dim": 24}
LATENT_FLAGS = {
    "kv-channels": 48,
    "multi-latent-attention": True,
    "q-lora-rank": 96,
    "kv-lora-rank": 64,
    "qk-head-dim": 32,
    "qk-pos-emb-head-dim": 16,
    "v-head-dim": 24,
    "qk-layernorm": True,
    "rope-type": "rope",
    "no-rope-fusion": True,
}
YARN = {"kind": "yarn", "factor": 40, "original_positions": 4096, "mscale_all_dim": 1.0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"norm_epsilon": 1e-6}, {"norm-epsilon": 1e-6}),
        ({"norm_centered_at_one": True}, {"apply-layernorm-1p": True}),
        ({"rotary_fraction": 0.5}, {"rotary-percent": 0.5}),
        ({"no_rope_every": 4}, {"no-rope-freq": 4}),
        ({"no_rope_every": 3}, {"no-rope-freq": "([0]*2+[1])*2+[0]*2"}),
        ({"attention_sinks": True}, {"softmax-type": "learnable"}),
        ({"window": {"tokens": 128}}, {"window-size": "127,0"}),
        (
            {"window": {"tokens": 128, "full_every": 2}},
            {"window-size": "127,0", "window-attn-skip-freq": 2},
        ),
        (
            {"activation": "clamped-swiglu"},
            {
                "swiglu": False,
                "quick-geglu": True,
                "glu-linear-offset": 1.0,
                "activation-func-clamp-value": 7.0,
            },
        ),
        (
            {"activation": "squared-relu"},
            {"swiglu": False, "squared-relu": True, "no-bias-gelu-fusion": True},
        ),
        (
            {"rope_scaling": {"kind": "linear", "factor": 2}},
            {"rotary-seq-len-interpolation-factor": 2},
        ),
        (
            {"rope_scaling": {"kind": "llama3", "factor": 8}},
            {"use-rope-scaling": True, "rope-scaling-factor": 8.0},
        ),
        (
            {"rope_scaling": YARN | {"rounded": False}},
            {
                "position-embedding-type": "yarn",
                "rotary-scaling-factor": 40.0,
                "mscale": 1.0,
                "mscale-all-dim": 1.0,
                "yarn-original-max-position-embeddings": 4096,
                "yarn-beta-fast": 32.0,
                "yarn-beta-slow": 1.0,
                "no-yarn-correction-range-round-to-int": True,
            },
        ),
        ({"latent_attention": LATENT}, LATENT_FLAGS),
        (
            {"latent_attention": LATENT, "rope_scaling": YARN | {"beta_fast": 1.0}},
            {name: value for name, value in LATENT_FLAGS.items() if name != "no-rope-fusion"}
            | {
                "rope-type": "yarn",
                "rotary-scaling-factor": 40.0,
                "mscale": 1.0,
                "mscale-all-dim": 1.0,
                "yarn-original-max-position-embeddings": 4096,
                "yarn-beta-fast": 1.0,
                "yarn-beta-slow": 1.0,
            },
        ),
        (
            {"mtp_layers": 1, "mtp_loss_coefficient": 0.3},
            {"mtp-num-layers": 1, "mtp-loss-scaling-factor": 0.3},
        ),
    ],
    ids=lambda value: "-".join(value),
)
def test_a_models_field_becomes_flags(
    changes: dict[str, object], expected: dict[str, object]
) -> None:
    assert flags_of(**changes) == expected


MOE = {"experts": 16, "top_k": 4, "expert_ffn_hidden_size": 64}
MOE_FLAGS = {
    "num-experts": 16,
    "moe-router-topk": 4,
    "moe-ffn-hidden-size": 64,
    "moe-aux-loss-coeff": 0.01,
    "moe-router-load-balancing-type": "aux_loss",
    "moe-token-dispatcher-type": "alltoall",
    "moe-grouped-gemm": True,
    "moe-permute-fusion": True,
    "moe-router-fusion": True,
    "expert-model-parallel-size": 1,
    "expert-tensor-parallel-size": 1,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"normalize_top_k": False}, {"moe-router-pre-softmax": True}),
        (
            {"score": "sigmoid"},
            {"moe-router-score-function": "sigmoid", "moe-router-dtype": "fp32"},
        ),
        (
            {"score": "sigmoid", "expert_bias": True, "bias_update_rate": 0.01},
            {
                "moe-router-score-function": "sigmoid",
                "moe-router-dtype": "fp32",
                "moe-router-enable-expert-bias": True,
                "moe-router-bias-update-rate": 0.01,
            },
        ),
        ({"scaling_factor": 2.5}, {"moe-router-topk-scaling-factor": 2.5}),
        (
            {"groups": 4, "groups_per_token": 2},
            {"moe-router-num-groups": 4, "moe-router-group-topk": 2},
        ),
        (
            {"balancing": "none"},
            {"moe-router-load-balancing-type": "none", "moe-aux-loss-coeff": None},
        ),
        ({"balancing": "sequence"}, {"moe-router-load-balancing-type": "seq_aux_loss"}),
        ({"dense_layers": 1}, {"moe-layer-freq": "([0]*1+[1]*7)"}),
        ({"layer_interval": 2}, {"moe-layer-freq": "([0]*0+([0]*1+[1])*4+[0]*0)"}),
        (
            {"layer_interval": 3, "dense_layers": 1},
            {"moe-layer-freq": "([0]*1+([0]*2+[1])*2+[0]*1)"},
        ),
    ],
    ids=lambda value: "-".join(value) or "plain",
)
def test_the_experts_fields_become_flags(
    changes: dict[str, object], expected: dict[str, object]
) -> None:
    wanted = {name: value for name, value in (MOE_FLAGS | expected).items() if value is not None}
    assert flags_of(moe=MOE | changes) == wanted


@pytest.mark.parametrize(("dense", "interval"), [(0, 1), (1, 1), (0, 2), (2, 3), (1, 4)])
def test_the_pattern_of_layers_is_that_of_the_plan(dense: int, interval: int) -> None:
    experts = MixtureOfExperts.model_validate(
        MOE | {"dense_layers": dense, "layer_interval": interval}
    )
    found = flags_of(moe=MOE | {"dense_layers": dense, "layer_interval": interval})
    pattern = str(found.get("moe-layer-freq", "[1]*8"))
    assert re.fullmatch(r"[][()+*0-9]+", pattern)
    # The engine evaluates the pattern too.
    assert eval(pattern) == [int(experts.has_experts(layer)) for layer in range(8)]  # noqa: S307


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ("window: {tokens: 64}", ("all_gather",)),
        ("attention_sinks: true", ("a2a",)),
        ("window: {tokens: 64}, attention_sinks: true", ("a2a",)),
        ("rope_theta: 10000.0", None),
    ],
)
def test_context_parallel_ranks_exchange_keys_as_the_attention_allows(
    parts: str, expected: object
) -> None:
    sizes = "layers: 8, hidden_size: 512, heads: 8, vocab_size: 1000, max_positions: 4096"
    model = f"model={{dimensions: {{family: llama, {sizes}, {parts}}}}}"
    for cp, wanted in ((1, None), (2, expected)):
        plan = resolved(model, "parallelism.tp_size=2", f"parallelism.cp_size={cp}")
        assert engine_arguments(plan)["cp-comm-type"] == wanted


def test_two_stages_of_several_chunks_name_only_the_layers_of_the_last() -> None:
    """With both, the engine divides by the number of stages in between."""
    stages = ("parallelism.tp_size=2", "parallelism.pp_size=2")
    ends = ("parallelism.first_stage_layers=20", "parallelism.last_stage_layers=16")
    both = "--decoder-first-pipeline-num-layers 20 --decoder-last-pipeline-num-layers 16"
    assert both in words(*stages, *ends)
    interleaved = words(*stages, *ends, "parallelism.vp_size=2")
    assert "--decoder-last-pipeline-num-layers 16" in interleaved
    assert "--decoder-first-pipeline-num-layers" not in interleaved


@pytest.mark.parametrize(("precision", "fused"), [("bf16", True), ("fp32", None), ("fp16", None)])
def test_a_loss_that_rounds_to_bf16_is_left_out_in_other_precisions(
    precision: str, fused: bool | None
) -> None:
    precise = f"training.precision={precision}"
    assert (engine_arguments(resolved(precise))["cross-entropy-loss-fusion"] or None) is fused
    asked = resolved(precise, "performance.fused_loss=true")
    assert engine_arguments(asked)["cross-entropy-loss-fusion"] is True
    short = Trial("", "", True, None, ShortRun(5, Layout()))
    assert MEGATRON.trial_arguments(asked, short)["cross-entropy-loss-fusion"] is None
