# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The twin keeps what shapes the code, and shrinks the rest."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.megatron.command_line import command_line, engine_arguments
from seatrial.engines.megatron.trial import one_rank_arguments
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.rehearsal.drills import other_layout
from seatrial.rehearsal.twin import (
    MAX_PROCESSES,
    SAVE_AT,
    SEQUENCE,
    STEPS,
    Twin,
    TwinData,
    degrees_of,
    twin_layouts,
    twins,
)
from seatrial.spec.model import Architecture, Norm
from tests.conftest import loaded, plan_spec

MOE = (
    "model.preset=mixtral-8x7b",
    "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 8}",
    "parallelism.ep_size=8",
    "parallelism.tp_size=2",
    "parallelism.pp_size=4",
    "training.micro_batch_size=1",
)


def twins_of(*overrides: str) -> tuple[Plan, list[Twin]]:
    """A plan and its twins."""
    spec = loaded(*overrides)
    plan = plan_spec(spec, Catalog())
    return plan, twins(spec, plan, Catalog(), TwinData())


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), [Layout(tp_size=2, dp_size=2)]),
        (("parallelism.pp_size=2",), [Layout(tp_size=2, pp_size=2, dp_size=2)]),
        (("parallelism.cp_size=2",), [Layout(tp_size=2, cp_size=2, dp_size=2)]),
        (("cluster.nodes=1", "parallelism.tp_size=8"), [Layout(tp_size=2)]),
        (
            ("parallelism.pp_size=2", "parallelism.cp_size=2", "cluster.nodes=4"),
            [Layout(tp_size=2, pp_size=2, dp_size=2), Layout(tp_size=2, cp_size=2, dp_size=2)],
        ),
        (MOE, [Layout(tp_size=2, pp_size=2, dp_size=2)]),
    ],
)
def test_every_degree_above_one_becomes_two(
    overrides: tuple[str, ...], expected: list[Layout]
) -> None:
    plan, found = twins_of(*overrides)
    assert twin_layouts(plan) == expected
    assert [degrees_of(twin.plan.layout) for twin in found] == list(map(degrees_of, expected))
    assert all(twin.plan.layout.world_size <= MAX_PROCESSES for twin in found)


def test_flags_that_shape_the_code_are_kept() -> None:
    plan, (twin,) = twins_of(
        "parallelism.pp_size=2",
        "parallelism.vp_size=2",
        "parallelism.recompute=full",
        "training.precision=fp16",
        "training.hidden_dropout=0.1",
        "checkpoints.asynchronous=true",
        "engine.options.manual-gc=true",
    )
    sizes = {
        "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "kv-channels",
        "max-position-embeddings", "vocab-size", "padded-vocab-size", "train-iters", "seq-length",
        "micro-batch-size", "global-batch-size", "lr", "min-lr", "lr-warmup-iters",
        "lr-decay-iters", "eval-interval", "eval-iters", "save-interval", "save", "load",
        "log-interval", "tensorboard-dir", "tensor-model-parallel-size",
    }  # fmt: skip
    large, small = engine_arguments(plan), engine_arguments(twin.plan)
    assert {name for name in large if large[name] != small[name]} <= sizes
    for word in ("--recompute-granularity", "--fp16", "--async-save", "--manual-gc"):
        assert word in command_line(small)


def test_relations_between_sizes_are_kept() -> None:
    plan, (twin,) = twins_of(*MOE)
    large, small = plan.model.architecture, twin.plan.model.architecture
    assert (small.kv_heads < small.heads) == (large.kv_heads < large.heads)
    assert small.norm is large.norm is Norm.RMSNORM
    assert small.moe is not None
    assert small.moe.top_k < small.moe.experts
    assert twin.plan.layout.ep_size == 2
    assert twin.plan.batch.micro_batches > 1


def test_heads_wider_than_the_stream_stay_so() -> None:
    _, (twin,) = twins_of(
        "model.preset=qwen3-30b-a3b",
        "parallelism.ep_size=4",
        "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 2}",
    )
    small = twin.plan.model.architecture
    assert small.heads * small.head_dim != small.hidden_size
    assert small.qk_norm


def test_uneven_stages_stay_uneven() -> None:
    _, (twin,) = twins_of(
        "parallelism.pp_size=4", "parallelism.first_stage_layers=6", "parallelism.tp_size=1",
        "parallelism.sequence_parallel=false",
    )  # fmt: skip
    sizes = [len(stage.layers) for stage in twin.plan.stages]
    assert len(set(sizes)) == 2


@pytest.mark.parametrize("chunks", [1, 2])
def test_embedding_and_loss_still_count_as_layers(chunks: int) -> None:
    _, (twin,) = twins_of(
        "model={dimensions: {family: gpt, layers: 30, hidden_size: 512, heads: 8, "
        "vocab_size: 32000, max_positions: 4096}}",
        "parallelism.pp_size=4",
        f"parallelism.vp_size={chunks}",
        "parallelism.embedding_as_layer=true",
        "parallelism.loss_as_layer=true",
    )
    sizes = [[len(chunk) for chunk in stage.chunks] for stage in twin.plan.stages]
    assert sizes == ([[1], [1]] if chunks == 1 else [[1, 2], [2, 1]])
    assert "--account-for-loss-in-pipeline-split" in command_line(engine_arguments(twin.plan))


def test_what_a_cpu_cannot_compute_is_said() -> None:
    _, (twin,) = twins_of(
        "training.precision=fp8",
        "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 2}",
    )
    assert "precision fp8 runs as bf16" in twin.replaced
    assert "a NullTokenizer replaces tokenizer hf://gpt2" in twin.replaced


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Layout(tp_size=2, pp_size=2, dp_size=2), Layout(tp_size=2, dp_size=2)),
        (Layout(tp_size=2, dp_size=2), Layout(dp_size=2)),
        (Layout(dp_size=2), Layout(tp_size=2)),
        (Layout(), Layout(tp_size=2)),
    ],
)
def test_the_other_layout_is_another(before: Layout, after: Layout) -> None:
    assert other_layout(before) == after


def test_what_is_replaced_is_said() -> None:
    spec = loaded(*MOE, "parallelism.etp_size=2", "data.tokenizer=hf://some/where@abc")
    plan = plan_spec(spec, Catalog())
    mock, unreachable, reached = (
        twins(spec, plan, Catalog(), data)[0].replaced
        for data in (TwinData(), TwinData(("/d/a",), "no such name"), TwinData(("/d/a",)))
    )
    assert mock == ("a NullTokenizer replaces tokenizer hf://some/where@abc", "etp 2 runs as etp 1")
    assert unreachable[0] == (
        "a NullTokenizer replaces tokenizer hf://some/where@abc because it cannot be loaded "
        "(no such name)"
    )
    assert reached == ("etp 2 runs as etp 1",)


def test_real_data_keep_their_vocabulary_and_place() -> None:
    spec = loaded("data={sources: [{from: /corpus}]}", "data.location=/prepared")
    plan = plan_spec(spec, Catalog())
    (twin,) = twins(spec, plan, Catalog(), TwinData(("/prepared/corpus-00000",)))
    assert twin.plan.model.architecture.vocab_size == plan.model.architecture.vocab_size
    assert engine_arguments(twin.plan)["data-args-path"] == "/prepared/blend.txt"


@pytest.mark.parametrize(
    ("layout", "other"),
    [
        (Layout(tp_size=2, pp_size=2, dp_size=2), Layout(tp_size=2, dp_size=2)),
        (Layout(tp_size=2, dp_size=2), Layout(tp_size=2, pp_size=2, dp_size=2)),
        (Layout(dp_size=2), Layout(pp_size=2, dp_size=2)),
        (Layout(tp_size=2, cp_size=2, dp_size=2), Layout(tp_size=2, cp_size=2, pp_size=2)),
    ],
)
def test_a_mixture_of_experts_keeps_its_groups_when_resharded(
    layout: Layout, other: Layout
) -> None:
    assert other_layout(layout, moe=True) == other


def small_model(parts: str, *overrides: str) -> Architecture:
    """The twin's model of a large one with these parts."""
    sizes = "layers: 32, hidden_size: 4096, heads: 32, vocab_size: 32000, max_positions: 8192"
    model = f"model={{dimensions: {{family: llama, {sizes}, {parts}}}}}"
    _, found = twins_of(model, *overrides)
    return found[0].plan.model.architecture


LATENT = "kv_rank: 512, qk_head_dim: 128, rope_head_dim: 64, value_head_dim: 128"
EXPERTS = "experts: 256, top_k: 8, expert_ffn_hidden_size: 2048"
PP = "parallelism.pp_size=2"


def test_the_twin_keeps_latent_attention() -> None:
    yarn = "rope_scaling: {kind: yarn, factor: 40, original_positions: 4096}"
    model = small_model(f"latent_attention: {{{LATENT}, q_rank: 1536}}, mtp_layers: 1, {yarn}")
    latent = model.latent_attention
    assert latent is not None
    assert latent.q_rank
    assert latent.value_head_dim == latent.qk_head_dim < model.hidden_size
    assert (model.kv_heads, model.mtp_layers) == (model.heads, 1)
    # Shorter than the twin's sequences, so that the scaling matters.
    assert model.rope_scaling
    assert model.rope_scaling.original_positions < SEQUENCE
    without = small_model(f"latent_attention: {{{LATENT}}}").latent_attention
    assert without is not None
    assert without.q_rank is None


def test_the_twin_keeps_how_tokens_are_routed() -> None:
    routing = "score: sigmoid, expert_bias: true, scaling_factor: 2.5, balancing: sequence"
    groups = "groups: 8, groups_per_token: 4"
    moe = small_model(f"moe: {{{EXPERTS}, {routing}, {groups}, dense_layers: 3}}", PP).moe
    assert moe is not None
    assert (moe.score, moe.expert_bias, moe.scaling_factor) == ("sigmoid", True, 2.5)
    assert (moe.balancing, moe.dense_layers) == ("sequence", 1)
    assert moe.groups is not None
    assert moe.groups_per_token is not None
    assert moe.groups_per_token < moe.groups
    assert moe.top_k == 2 * moe.groups_per_token
    limited = small_model(f"moe: {{{EXPERTS}, groups: 1, groups_per_token: 1}}").moe
    assert limited is not None
    assert (limited.groups, limited.groups_per_token, limited.top_k) == (1, 1, 4)


@pytest.mark.parametrize("parts", ["layer_interval: 2", "layer_interval: 2, dense_layers: 1"])
def test_both_halves_of_the_twin_have_experts(parts: str) -> None:
    model = small_model(f"moe: {{{EXPERTS}, {parts}}}")
    assert model.moe is not None
    assert model.moe.layer_interval == 2
    found = list(map(model.moe.has_experts, range(model.layers)))
    half = model.layers // 2
    assert any(found[:half])
    assert any(found[half:])
    assert not all(found)


def test_the_twin_keeps_patterns_of_layers() -> None:
    parts = "window: {tokens: 4096, full_every: 6}, no_rope_every: 4, attention_sinks: true"
    model = small_model(parts, PP)
    assert model.window is not None
    # The window is shorter than the sequence, and one layer has full attention.
    assert model.window.tokens < SEQUENCE
    assert (model.window.full_every, model.no_rope_every) == (6, 4)
    assert model.layers >= 6
    assert model.layers % 2 == 0
    assert model.attention_sinks


def test_sequences_of_the_twin_are_longer_than_the_original_ones() -> None:
    yarn = "rope_scaling: {kind: yarn, factor: 4, original_positions: 4096, rounded: false}"
    scaling = small_model(yarn).rope_scaling
    assert scaling is not None
    assert scaling.original_positions < SEQUENCE
    assert not scaling.rounded


def test_heads_with_sinks_are_split_over_context_parallel_ranks() -> None:
    parts = "attention_sinks: true, kv_heads: 8"
    model = small_model(parts, "parallelism.cp_size=2")
    assert model.kv_heads // 2 % 2 == 0


def test_the_batch_of_the_twin_grows_where_it_resumes() -> None:
    schedule = (
        "training.batch_schedule=[{global_batch_size: 256, until_tokens: 100M}, "
        "{global_batch_size: 512, until_tokens: 200M}]"
    )
    for overrides in ((), ("parallelism.pp_size=2",)):
        _, (usual,) = twins_of(*overrides)
        _, (twin,) = twins_of(schedule, *overrides)
        first, last = twin.plan.length.phases
        assert first.global_batch_size == usual.plan.batch.global_batch_size
        assert (last.global_batch_size, last.first_step) == (2 * first.global_batch_size, SAVE_AT)
        assert twin.plan.length.steps == STEPS


def test_one_rank_has_one_batch_size() -> None:
    plan, _ = twins_of("training.batch_schedule=[{global_batch_size: 512, until_tokens: 100M}]")
    arguments = one_rank_arguments(engine_arguments(plan))
    assert arguments["global-batch-size"] == plan.batch.micro_batch_size
    assert arguments["step-batch-size-schedule"] is arguments["eval-global-batch-size"] is None
