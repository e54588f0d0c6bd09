# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Custom pipeline layouts: the notation, the rules, and what the plan and the twin make of them."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.engine import ShortRun, Trial
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.trial import trial_arguments
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.planning.layout import Layout
from seatrial.planning.memory.estimate import deciding_stages, every_stage
from seatrial.planning.memory.states import (
    chunk_layers,
    model_counts,
    stage_parameters,
    total_layers,
)
from seatrial.planning.parameters import rank_parameters
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.choose import candidate_of
from seatrial.planning.stages import custom_stages
from seatrial.planning.timing.traffic import stage_counts
from seatrial.planning.workload import Workload
from seatrial.rehearsal.twin import Twin, TwinData, twins
from seatrial.spec.pipeline_layout import LayoutError, parse_layout
from tests.conftest import loaded, plan_spec

PUBLISHED = "Et*3|(tt|)*29,m|L"
"""The layout of DeepSeek-V3 in the engine's documentation."""


def spec(layers: int, layout: str, *overrides: str, mtp: int = 0) -> tuple[str, ...]:
    """A small model with a custom layout on 16 GPUs."""
    sizes = f"layers: {layers}, hidden_size: 512, heads: 8, vocab_size: 32000, max_positions: 4096"
    return (
        f"model={{dimensions: {{family: llama, {sizes}, mtp_layers: {mtp}}}}}",
        f"parallelism={{tp_size: 1, pipeline_layout: '{layout}'}}",
        *overrides,
    )


def planned(*overrides: str) -> Plan:
    return plan_spec(loaded(*overrides), Catalog())


def refusals(*overrides: str) -> list[str]:
    """The findings of a spec that cannot become a plan, one line each."""
    with pytest.raises(FindingsError) as caught:
        planned(*overrides)
    return [
        f"{finding.code} {finding.where.field}: {finding.rule} {finding.fix}"
        for finding in caught.value.findings
    ]


@pytest.mark.parametrize(
    ("text", "stages", "layers", "mtp_layers", "mtp_stage"),
    [
        (PUBLISHED, 32, 61, 1, 30),
        ("Et*4|(t*4|)*14tmL", 16, 61, 1, 15),
        ("Et|(tt|)*30L", 32, 61, 0, None),
        ("E|t,t||ttL", 4, 4, 0, None),
        ("EttL", 1, 2, 0, None),
        ("Et*0|tL", 2, 1, 0, None),
    ],
)
def test_the_notation_is_that_of_the_engine(
    text: str, stages: int, layers: int, mtp_layers: int, mtp_stage: int | None
) -> None:
    layout = parse_layout(text)
    assert len(layout.stages) == stages
    assert (layout.layers, layout.mtp_layers, layout.mtp_stage) == (layers, mtp_layers, mtp_stage)
    assert parse_layout(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "a layout has E (the embedding) once, but this one has it 0 times."),
        ("Et|EtL", "a layout has E (the embedding) once, but this one has it 2 times."),
        ("Et|t", "a layout has L (output and loss) once, but this one has it 0 times."),
        ("|EttL", "E (the embedding) is first in the first stage, but that stage is ``."),
        ("Et|tL|", "L (output and loss) is last in the last stage, but that stage is ``."),
        ("Etm|tL", "m (multi-token prediction) follows all layers, but a t comes after it."),
        ("Et|m|mL", "all layers for multi-token prediction are in one stage, but m is in 2 stages"),
        ("Ex|tL", "`x` stands for no part of a model."),
        ("Et |tL", "` ` stands for no part of a model."),
        ("E((t|)*2)*2L", "`((t|)*2)*2L` is not a repetition"),
        ("Et*2*2|L", "`*2|L` is not a repetition"),
        ("E(tt)|L", "`(tt)|L` is not a repetition"),
        ("Et*99999999|L", "the layout has more than 10,000 letters."),
        ("Et*99999999999999|L", ""),
    ],
)
def test_a_wrong_layout_is_refused_with_its_rule(text: str, rule: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_layout(text)
    assert caught.value.rule.startswith(rule)
    assert caught.value.fix.endswith(".")


def test_stages_are_dealt_to_ranks_in_turn() -> None:
    first, second = custom_stages(parse_layout("Et|ttt|tt|mL"), 2)
    assert first.chunks == ((0,), (4, 5))
    assert second.chunks == ((1, 2, 3), ())
    assert [first.mtp, second.mtp] == [False, True]


def test_the_layout_sets_stages_and_chunks() -> None:
    plan = planned(*spec(7, "Et|ttt|tt|tL", "parallelism.pp_size=2"))
    assert (plan.layout.pp_size, plan.layout.vp_size) == (2, 2)
    assert [stage.chunks for stage in plan.stages] == [((0,), (4, 5)), ((1, 2, 3), (6,))]
    arguments = engine_arguments(plan)
    assert arguments["pipeline-model-parallel-layout"] == "Et|ttt|tt|tL"
    assert arguments["num-virtual-stages-per-pipeline-rank"] is None


def test_the_planner_chooses_ranks_and_chunks_that_the_layout_allows() -> None:
    plan = planned(*spec(7, "Et|ttt|tt|tL"))
    assert plan.layout.pp_size * plan.layout.vp_size == 4
    assert planned(*spec(7, "Et|ttt|tt|tL", "parallelism.vp_size=1")).layout.pp_size == 4


def test_plans_without_a_layout_have_the_digests_of_earlier_versions() -> None:
    plan = planned("parallelism.pp_size=2")
    assert all("mtp" not in stage for stage in plan.to_dict()["stages"])
    assert "pipeline_layout" not in plan.to_dict()["spec"]["parallelism"]
    custom = planned(*spec(7, "Et|ttt|tt|tL")).to_dict()
    assert [stage["mtp"] for stage in custom["stages"]] == [False] * len(custom["stages"])


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        (
            spec(8, "Et|ttt|tt|tL"),
            "ST-LAYOUT-005 parallelism.pipeline_layout: the layout has 7 layers (t), but the model "
            "has 8. Use a layout with 8 t.",
        ),
        (
            spec(7, "Et|ttt|tt|tL", mtp=1),
            "ST-LAYOUT-005 parallelism.pipeline_layout: the layout has 0 layers for multi-token "
            "prediction (m), but the model has 1 (mtp_layers). Use a layout with 1 m, such as in "
            "front of L.",
        ),
        (
            spec(7, "Et|ttt|tttm|L", "parallelism.pp_size=2", mtp=1),
            "ST-LAYOUT-005 parallelism.pipeline_layout: with pp_size 2, m (multi-token prediction) "
            "is in chunk 1 of pipeline rank 0; it must be in the last chunk (1) of a rank other "
            "than 0. Move m to the stage of L.",
        ),
        (
            spec(7, "Et|t*3||t*3L", "parallelism.pp_size=4"),
            "ST-LAYOUT-005 parallelism.pipeline_layout: with pp_size 4, pipeline rank 2 has no "
            "part of the model. Move a layer to one of its stages.",
        ),
        (
            spec(7, "Et|ttt|tttm||L|", "parallelism.pp_size=3", mtp=1),
            "ST-SPEC-005 parallelism.pipeline_layout: L (output and loss) is last in the last "
            "stage, but that stage is ``. Move L to the end of the last stage.",
        ),
        (
            spec(7, "Et|ttt|tt|tL", "parallelism.pp_size=3"),
            "ST-SPEC-005 parallelism.pipeline_layout: the layout has 4 stages, which is not "
            "divisible by pp_size 3. Use a layout with one | fewer than pp_size × vp_size, or set "
            "vp_size to auto.",
        ),
        (
            spec(7, "Et|ttt|tt|tL", "parallelism.pp_size=2", "parallelism.vp_size=1"),
            "ST-SPEC-005 parallelism.pipeline_layout: the layout has 4 stages, which is not equal "
            "to pp_size 2 × vp_size 1. Use a layout with one | fewer than pp_size × vp_size, or "
            "set vp_size to auto.",
        ),
        (
            spec(7, "Et|ttt|tt|tL", "parallelism.pp_size=1"),
            "ST-LAYOUT-005 parallelism.pipeline_layout: the layout has 4 stages, but pp_size is 1, "
            "so all layers are in one stage. Set pp_size to auto, or remove pipeline_layout.",
        ),
        (
            spec(7, "Ett|tt|tttL"),
            "ST-LAYOUT-001 parallelism.pipeline_layout: the layout has 3 stages, but 16 ranks are "
            "not divisible by tp 1 × pp 3 = 3. Use nodes in multiples of 3, or a layout with 2 or "
            "4 stages.",
        ),
        *(
            (
                spec(7, "Et|ttt|tt|tL", f"parallelism.{field}={value}"),
                "ST-SPEC-005 parallelism.pipeline_layout: a custom layout sets the layers of every "
                f"stage, so {field} has no effect. Remove {field}, or pipeline_layout.",
            )
            for field, value in (
                ("first_stage_layers", "1"),
                ("last_stage_layers", "1"),
                ("embedding_as_layer", "true"),
                ("loss_as_layer", "true"),
            )
        ),
    ],
)
def test_what_the_engine_refuses_is_refused(overrides: tuple[str, ...], rule: str) -> None:
    assert rule in refusals(*overrides)


def test_a_wrong_layout_of_experts_has_one_finding() -> None:
    """Sequence parallelism, which experts require, is open and not at fault."""
    experts = "moe: {experts: 8, top_k: 2, expert_ffn_hidden_size: 512}"
    sizes = "layers: 8, hidden_size: 512, heads: 8, vocab_size: 32000, max_positions: 4096"
    found = refusals(
        f"model={{dimensions: {{family: llama, {sizes}, {experts}}}}}",
        "parallelism={tp_size: 2, pp_size: 2, pipeline_layout: 'Et|tL'}",
    )
    assert found == [
        "ST-LAYOUT-005 parallelism.pipeline_layout: the layout has 2 layers (t), but the model has "
        "8. Use a layout with 8 t."
    ]


def test_llm_foundry_has_no_stages() -> None:
    overrides = spec(7, "Et|ttt|tt|tL", "engine.name=llm-foundry", "parallelism.sharding=none")
    basis = resolve_basis(loaded(*overrides), Catalog())
    plan = plan_run(basis).plan
    found = {problem.field: problem for problem in ENGINES["llm-foundry"].plan_problems(plan)}
    assert found["parallelism.pipeline_layout"].rule == (
        "LLM Foundry has no pipeline stages, so a pipeline layout has no effect."
    )


def custom_run() -> tuple[Plan, Workload]:
    """Multi-token prediction in a stage of its own, and a last stage without layers."""
    overrides = spec(7, "Ettt|tttt|m|L", "parallelism.pp_size=4", mtp=1)
    run = plan_run(resolve_basis(loaded(*overrides), Catalog()))
    assert run.problem.hardware is not None
    return run.plan, run.problem.workload(candidate_of(run.plan), run.problem.hardware)


def test_parameters_are_where_the_engine_builds_them() -> None:
    plan, load = custom_run()
    model, padded = plan.model.architecture, plan.model.padded_vocab_size
    words = padded * model.hidden_size
    norm = model.hidden_size
    alone = planned(*spec(7, "Et*7mL", mtp=1))
    # The stage of multi-token prediction has a copy of the embeddings, and no output projection.
    assert sum(plan.stage_parameters) == alone.stage_parameters[0] + words
    assert plan.stage_parameters[3] == words
    layer = (plan.stage_parameters[0] - words) // 3
    assert plan.stage_parameters[1] == 4 * layer + norm
    counts = model_counts(load)
    for stage in plan.stages:
        layers = total_layers(chunk_layers(load, stage.index))
        own = sum(stage_parameters(load, counts, layers, stage.index))
        assert own == rank_parameters(model, padded, plan.layout, stage)


def test_memory_and_time_follow_the_stages() -> None:
    _, load = custom_run()
    assert deciding_stages(load) == (0, 1, 2, 3)
    counts = stage_counts(load)
    assert [count[0] for count in counts.each] == [3, 4, 1, 0]
    heads = [count[2] for count in counts.each]
    assert heads[:2] == [0, 0]
    assert 0 < heads[2] < 1
    assert heads[3] == 2
    memory = every_stage(load)
    assert [stage.logits > 0 for stage in memory.stages] == [False, False, False, True]


def twin_of(*overrides: str) -> Twin:
    given = loaded(*overrides)
    (twin,) = twins(given, plan_spec(given, Catalog()), Catalog(), TwinData())
    return twin


@pytest.mark.parametrize(
    ("layers", "mtp", "layout", "pp", "expected"),
    [
        (7, 0, "Et|ttt|tt|tL", 4, "Et|tL"),
        (8, 0, "Et*3|t*4|tL", 3, "Ett|tL"),
        (8, 0, "E|t*4|t*4|L", 4, "Ett|L"),
        (8, 3, "Et*4|t*4mmmL", 2, "Et|tmmL"),
        (8, 0, "Et|ttt|ttt|tL", 2, "Et|tt|tt|tL"),
        (7, 0, "Et|ttt|ttt|L", 2, "Et|tt|tt|L"),
    ],
)
def test_the_twin_keeps_the_character_of_a_layout(
    layers: int, mtp: int, layout: str, pp: int, expected: str
) -> None:
    sizes = f"parallelism.pp_size={pp}", f"cluster.nodes={3 if pp == 3 else 2}"
    twin = twin_of(*spec(layers, layout, *sizes, mtp=mtp))
    assert twin.plan.spec.parallelism.pipeline_layout == expected
    assert twin.plan.model.architecture.layers == parse_layout(expected).layers


def test_the_twin_states_that_multi_token_prediction_moves() -> None:
    twin = twin_of(*spec(7, "Ettt|tttt|m|L", "parallelism.pp_size=4", mtp=1))
    assert twin.plan.spec.parallelism.pipeline_layout == "Ett|mL"
    assert "multi-token prediction runs in the last stage, not in one before it" in twin.replaced


def test_a_run_without_multi_token_prediction_has_a_layout_without_it() -> None:
    twin = twin_of(*spec(8, "Et*4|t*4mL", "parallelism.pp_size=2", mtp=1))
    short = ShortRun(2, Layout(pp_size=2), True)
    arguments = trial_arguments(twin.plan, Trial("/d", "", True, None, short))
    assert arguments["pipeline-model-parallel-layout"] == "Et|tL"
    alone = ShortRun(2, Layout(), False)
    arguments = trial_arguments(twin.plan, Trial("/d", "", True, None, alone))
    assert arguments["pipeline-model-parallel-layout"] is None


@pytest.mark.parametrize("layout", ["E|t*16|t*16|L", "Et*8|t*8|t*8|t*8L"])
def test_the_planner_splits_a_layout_into_ranks_and_chunks(layout: str, catalog: Catalog) -> None:
    given = loaded(
        "model={preset: llama3.1-8b}",
        f"parallelism={{pipeline_layout: '{layout}'}}",
        "training.micro_batch_size=auto",
        "cluster.node_type=p5.48xlarge",
        "cluster.nodes=8",
    )
    plan = plan_spec(given, catalog)
    assert plan.layout.pp_size * plan.layout.vp_size == 4
