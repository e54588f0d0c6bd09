# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The planner chooses the performance options that the engine allows and that pay off."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from seatrial.catalog.catalog import Catalog
from seatrial.codes.engines import EngineCode
from seatrial.engines.megatron.performance_rules import OPTIONS
from seatrial.engines.megatron.run_rules import run_problems
from seatrial.engines.registry import plan_findings
from seatrial.planning.layout import Layout
from seatrial.planning.options import (
    NAMES,
    NO_OPTIONS,
    EngineOption,
    OptionCase,
    OptionChooser,
    OptionRule,
    Options,
    choose_options,
    given_options,
    why_off,
)
from seatrial.planning.plan import Origin, Plan
from seatrial.planning.plan_record import layout_digest
from seatrial.reports.plan_phrases import option_words
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.performance import (
    CudaGraphs,
    MomentPrecision,
    PerformanceSpec,
    TokenDispatcher,
)
from seatrial.spec.scalars import AUTO
from tests.conftest import loaded, resolved

MODEL = (
    "model={dimensions: {family: llama, layers: 8, hidden_size: 512, heads: 8, vocab_size: 1000, "
    "max_positions: 4096, moe: {experts: 64, top_k: 4, expert_ffn_hidden_size: 64, "
    "shared_expert_ffn_hidden_size: 64}}}"
)
EXPERTS = (MODEL, "parallelism.tp_size=2", "parallelism.ep_size=2")
H100 = "cluster.node_type=p5.48xlarge"
NO_GPUS = "cluster={profile: local, processes_per_node: 8}"


def case(*overrides: str, domain: int = 8) -> OptionCase:
    """What decides the options of the good spec with overrides."""
    plan = resolved(*overrides)
    return OptionCase(
        loaded(*overrides).spec,
        plan.model.architecture,
        plan.layout,
        plan.sequence_parallel,
        plan.sharding,
        plan.recompute,
        "h100-80gb",
        "Hopper",
        domain,
    )


def never(_: OptionCase) -> bool:
    return False


def always(_: OptionCase) -> bool:
    return True


def option(name: str) -> EngineOption:
    (found,) = [each for each in OPTIONS if each.name == name]
    return found


def test_the_options_are_the_fields_of_the_section() -> None:
    assert set(PerformanceSpec.model_fields) == set(NAMES)
    assert all(getattr(PerformanceSpec(), name) == AUTO for name in NAMES)


def test_an_option_is_on_where_nothing_speaks_against_it() -> None:
    known = (
        EngineOption("gradient_overlap"),
        EngineOption("fused_loss", (OptionRule(never, "never."),)),
        EngineOption("fused_layers", (OptionRule(always, "always."),)),
        EngineOption("tensor_overlap", needless=lambda _: "it is slower."),
        EngineOption("cuda_graphs", value=lambda _: CudaGraphs.LAYERS),
    )
    chosen = choose_options(case(), known)
    assert chosen == replace(
        NO_OPTIONS, gradient_overlap=True, fused_loss=True, cuda_graphs=CudaGraphs.LAYERS
    )
    assert [why_off(case(), each) for each in known] == ["", "", "always.", "it is slower.", ""]


def test_an_option_of_the_spec_is_kept_whatever_the_engine_says() -> None:
    against = (OptionRule(always, "always."),)
    known = (EngineOption("gradient_overlap"), EngineOption("fused_loss", against))
    given = case("performance={gradient_overlap: false, fused_loss: true}")
    assert choose_options(given, known) == replace(NO_OPTIONS, fused_loss=True)


def test_an_option_sees_those_before_it() -> None:
    depends = OptionRule(lambda each: not each.options.gradient_overlap, "it needs the first.")
    known = (EngineOption("gradient_overlap"), EngineOption("parameter_overlap", (depends,)))
    assert choose_options(case(), known).parameter_overlap
    without = case("performance.gradient_overlap=false")
    assert not choose_options(without, known).parameter_overlap
    assert not choose_options(case(), known[1:]).parameter_overlap


def test_an_option_that_the_run_needs_is_missed_only_where_it_is_off() -> None:
    needed = OptionRule(always, "the run needs it.", "performance.fused_loss=true")
    wanted = EngineOption("fused_loss", required=needed)
    assert wanted.problems(case()) == [needed]
    on = replace(case(), options=Options(fused_loss=True))
    assert wanted.problems(on) == []


def test_every_change_is_named_unless_the_option_must_go() -> None:
    first, second = (OptionRule(always, f"{name}.", f"{name}=true") for name in ("a", "b"))
    gone, also = (OptionRule(always, f"never with {name}.") for name in ("it", "that"))
    on = replace(case(), options=Options(fused_loss=True))
    assert EngineOption("fused_loss", (first, second)).problems(on) == [first, second]
    assert EngineOption("fused_loss", (first, gone, second, also)).problems(on) == [gone, also]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in NAMES[:6] for value in (True, False)),
        ("token_dispatcher", TokenDispatcher.ALLGATHER),
        ("cuda_graphs", CudaGraphs.STEP),
        ("moments", MomentPrecision.BF16),
        ("optimizer_offload", 0.25),
        ("activation_offload", 3),
    ],
)
def test_a_plan_has_the_values_of_its_spec(name: str, value: object) -> None:
    word = str(value).lower() if isinstance(value, bool) else str(value)
    plan = resolved(f"performance.{name}={word}")
    assert getattr(plan.spec.performance, name) == value
    assert plan.origins[f"performance.{name}"] is Origin.YOU
    others = [each for each in NAMES if each != name]
    assert {plan.origins[f"performance.{each}"] for each in others} == {Origin.PLANNER}
    assert AUTO not in [getattr(plan.spec.performance, each) for each in NAMES]


DENSE_ON = {
    *("gradient_overlap", "parameter_overlap", "tensor_overlap", "fused_loss", "fused_layers"),
}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), DENSE_ON),
        (("parallelism.sharding=none",), DENSE_ON - {"parameter_overlap"}),
        (("parallelism.sequence_parallel=false",), DENSE_ON - {"tensor_overlap"}),
        (
            ("parallelism.tp_size=1", "parallelism.sequence_parallel=false"),
            DENSE_ON - {"tensor_overlap"},
        ),
        (
            ("parallelism.pp_size=4", "training.micro_batch_size=1"),
            DENSE_ON - {"gradient_overlap", "parameter_overlap"},
        ),
        (("parallelism.pp_size=2", "parallelism.vp_size=2"), DENSE_ON | {"pipeline_overlap"}),
        (("training.deterministic=true",), DENSE_ON - {"tensor_overlap", "fused_loss"}),
        (("engine.options.transformer-impl=local",), DENSE_ON - {"tensor_overlap"}),
        (("performance.gradient_overlap=false",), DENSE_ON - {"gradient_overlap"}),
        ((NO_GPUS,), {"gradient_overlap", "parameter_overlap"}),
        (EXPERTS, (DENSE_ON - {"tensor_overlap"}) | {"grouped_experts", "fused_routing"}),
        ((*EXPERTS, NO_GPUS), {"gradient_overlap", "parameter_overlap"}),
    ],
)
def test_megatron_gets_what_it_allows(overrides: tuple[str, ...], expected: set[str]) -> None:
    options = given_options(resolved(H100, *overrides).spec)
    found = {name for name in NAMES if options.is_on(name)}
    if "performance.gradient_overlap=false" in overrides:
        expected = expected - {"parameter_overlap"}
    assert found == expected


def test_graphs_are_left_off_because_published_runs_do_not_gain() -> None:
    for given in (case(*EXPERTS), case()):
        newer = replace(given, accelerator="b200", generation="Blackwell")
        assert choose_options(newer, OPTIONS).cuda_graphs is CudaGraphs.NONE
    assert "save no time" in why_off(newer_experts(), option("cuda_graphs"))


def newer_experts() -> OptionCase:
    return replace(case(*EXPERTS), accelerator="b200", generation="Blackwell")


def test_experts_beyond_a_domain_hide_their_exchange() -> None:
    wide = (MODEL, "parallelism.tp_size=1", "parallelism.sequence_parallel=false")
    given = case(*wide, "parallelism.ep_size=16")
    assert choose_options(given, OPTIONS).expert_overlap
    assert not choose_options(replace(given, domain=16), OPTIONS).expert_overlap
    gathered = case(
        *wide, "parallelism.ep_size=16", "performance.token_dispatcher=allgather", domain=8
    )
    assert not choose_options(gathered, OPTIONS).expert_overlap
    # The engine advises against both on Hopper, which needs one connection for tp.
    split = (MODEL, "parallelism.tp_size=2", "parallelism.ep_size=16")
    assert not choose_options(case(*split), OPTIONS).expert_overlap
    newer = replace(case(*split), generation="Blackwell")
    assert choose_options(newer, OPTIONS).expert_overlap


def test_tensor_overlap_stays_inside_a_domain() -> None:
    assert choose_options(case(domain=4), OPTIONS).tensor_overlap
    assert not choose_options(case(domain=2), OPTIONS).tensor_overlap
    assert "NVLink domain" in why_off(case(domain=2), option("tensor_overlap"))
    older = replace(case(), generation="Ampere")
    assert "multicast" in why_off(older, option("tensor_overlap"))
    skipping = replace(case('cluster.env.UB_SKIPMC="1"'), generation="Ampere")
    assert choose_options(skipping, OPTIONS).tensor_overlap


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ("tensor_overlap: true", lambda plan: plan.layout.tp_size > 1),
        ("expert_overlap: true", lambda plan: plan.recompute is not Recompute.FULL),
        ("cuda_graphs: layers", lambda plan: plan.recompute is not Recompute.FULL),
    ],
)
def test_the_planner_takes_a_layout_that_allows_the_options_in_the_spec(
    given: str, accepted: Callable[[Plan], bool]
) -> None:
    preset = "model={preset: llama3.1-8b}" if "tensor" in given else "model={preset: mixtral-8x7b}"
    free = (H100, "cluster.nodes=8", preset, "parallelism={}", "training.micro_batch_size=auto")
    plan = resolved(*free, f"performance={{{given}}}")
    assert accepted(plan)
    assert run_problems(plan, "Hopper", 8) == []


def test_options_that_no_layout_allows_are_reported_by_the_check() -> None:
    plan = resolved(H100, "parallelism={tp_size: 1}", "performance.tensor_overlap=true")
    assert [each.field for each in run_problems(plan, "Hopper", 8)] == [
        "performance.tensor_overlap"
    ]


@pytest.mark.parametrize("name", ["moments", "optimizer_offload", "activation_offload"])
def test_what_costs_precision_or_time_is_only_offered(name: str) -> None:
    given = case("parallelism.recompute=none")
    assert option(name).against(given) is None
    assert "yourself" in why_off(given, option(name))


def test_each_option_stands_after_those_it_depends_on() -> None:
    names = [each.name for each in OPTIONS]
    assert sorted(names) == sorted(NAMES)
    for first, then in (
        ("gradient_overlap", "parameter_overlap"),
        ("token_dispatcher", "expert_overlap"),
        ("expert_overlap", "shared_expert_overlap"),
        ("activation_offload", "cuda_graphs"),
    ):
        assert names.index(first) < names.index(then)


def test_a_chooser_answers_for_each_layout() -> None:
    spec, model = loaded().spec, resolved().model.architecture
    chooser = OptionChooser(spec, model, OPTIONS, "h100", "Hopper", 8)

    def chosen(layout: Layout, sharding: Sharding = Sharding.OPTIMIZER) -> Options:
        return chooser.options(
            layout, sequence_parallel=True, sharding=sharding, recompute=Recompute.NONE
        )

    four = Layout(tp_size=4).spread_over(16)
    assert chosen(four).tensor_overlap
    assert chosen(four) is chosen(four)
    assert not chosen(Layout(tp_size=1).spread_over(16)).tensor_overlap
    assert not chosen(four, Sharding.NONE).parameter_overlap


SIZES = (1, 2, 3, 4, 16, 64)
PRESETS = ("llama3.1-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b", "qwen3-30b-a3b")
GPUS = (("", ""), ("h100-80gb", "Hopper"), ("b200", "Blackwell"), ("gb200", "Blackwell"))
GIVEN = ("", "token_dispatcher: hybridep", "shared_expert_overlap: true", "gradient_overlap: false")


@hypothesis.settings(max_examples=40)
@hypothesis.given(
    model=st.sampled_from([Catalog().model(name).architecture for name in PRESETS]),
    performance=st.sampled_from(GIVEN),
    gpu=st.sampled_from(GPUS),
    domain=st.sampled_from([0, 1, 4, 8, 72]),
    degrees=st.tuples(*[st.sampled_from(SIZES)] * 7),
    sequence_parallel=st.booleans(),
    sharding=st.sampled_from(Sharding),
    recompute=st.sampled_from([each for each in Recompute if each is not Recompute.AUTO]),
)
def test_layouts_that_a_chooser_treats_alike_have_the_same_options(
    model: Architecture,
    performance: str,
    gpu: tuple[str, str],
    domain: int,
    degrees: tuple[int, ...],
    sequence_parallel: bool,
    sharding: Sharding,
    recompute: Recompute,
) -> None:
    spec = loaded(f"performance={{{performance}}}").spec
    chooser = OptionChooser(spec, model, OPTIONS, *gpu, domain)
    # Layouts that differ in one degree, so that a rule on that degree alone decides.
    for place, size in product(range(len(degrees)), SIZES):
        sizes = [*degrees]
        sizes[place] = size
        layout = Layout(*sizes)
        settings: Any = {
            "sequence_parallel": sequence_parallel,
            "sharding": sharding,
            "recompute": recompute,
        }
        expected = choose_options(chooser.case(layout, **settings), OPTIONS)
        assert chooser.options(layout, **settings) == expected


FOUNDRY = (
    *("engine.name=llm-foundry", "model.preset=mpt-7b", "parallelism.tp_size=1"),
    *("parallelism.sharding=fsdp", "parallelism.recompute=full"),
    "parallelism.sequence_parallel=false",
)


def test_an_engine_without_options_gets_none() -> None:
    plan = resolved(*FOUNDRY)
    assert plan.spec.performance == PerformanceSpec()
    assert given_options(plan.spec) == NO_OPTIONS
    assert not [field for field in plan.origins if field.startswith("performance.")]
    assert plan_findings(loaded(*FOUNDRY), plan) == []


def test_an_option_that_the_engine_does_not_have_is_refused() -> None:
    given = (*FOUNDRY, "performance={fused_loss: true, tensor_overlap: false}")
    (found,) = plan_findings(loaded(*given), resolved(*given))
    assert (found.code, found.where.field) == (EngineCode.UNSUPPORTED, "performance.fused_loss")
    assert found.rule == "LLM Foundry does not have this option."


def test_options_in_words() -> None:
    options = Options(
        gradient_overlap=True,
        token_dispatcher=TokenDispatcher.DEEPEP,
        cuda_graphs=CudaGraphs.LAYERS,
        moments=MomentPrecision.BF16,
        optimizer_offload=0.5,
        activation_offload=4,
    )
    assert options.words() == [
        "gradient overlap",
        "tokens by deepep",
        "CUDA graphs (layers)",
        "moments in bf16",
        "50% of the optimizer on the host",
        "activations of 4 layers on the host",
    ]
    assert Options(activation_offload=1).words() == ["activations of 1 layer on the host"]
    assert NO_OPTIONS.words() == []


def test_the_plan_says_who_chose_the_options() -> None:
    assert option_words(resolved(NO_GPUS)) == "gradient overlap, parameter overlap   (planner)"
    given = "performance={gradient_overlap: false, fused_layers: true}"
    assert option_words(resolved(H100, given)) == (
        "tensor overlap, fused loss, fused layers   (gradient overlap, fused layers: you)"
    )
    off = [f"performance.{name}=false" for name in ("gradient_overlap", "parameter_overlap")]
    assert option_words(resolved(NO_GPUS, *off)).startswith("none   (")


def test_a_stored_layout_does_not_depend_on_the_planners_options() -> None:
    plan = resolved()
    spec = plan.spec
    other = spec.performance.model_copy(update={"fused_loss": False})
    changed = replace(plan, spec=spec.model_copy(update={"performance": other}))
    assert changed.digest != plan.digest
    assert layout_digest(changed) == layout_digest(plan)
    given = resolved("performance.fused_loss=false")
    assert layout_digest(given) != layout_digest(plan)
