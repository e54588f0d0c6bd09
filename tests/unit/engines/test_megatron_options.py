# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Options that are passed through are checked against the engine's own list."""

import re

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.codes.engines import EngineCode
from seatrial.engines.megatron.command_line import command_line, engine_arguments
from seatrial.engines.megatron.flags_from_spec import FLAGS
from seatrial.engines.megatron.model_flags import Flag
from seatrial.engines.megatron.parser_options import known_options
from seatrial.engines.megatron.passthrough_options import (
    DERIVED,
    MODELLED,
    PLANNED_VALUES,
    option_problems,
)
from seatrial.engines.registry import plan_findings
from seatrial.spec.engine import OptionValue
from seatrial.spec.fields import all_fields
from tests.conftest import loaded, plan_spec, resolved


def test_every_modelled_option_exists_and_names_a_field() -> None:
    fields = {field.name for field in all_fields().values()}
    assert set(MODELLED) <= set(known_options())
    assert set(DERIVED) <= set(known_options())
    assert not set(DERIVED) & set(MODELLED)
    assert set(MODELLED.values()) <= fields


def test_every_advice_names_a_field_of_the_spec_or_a_value_of_the_engine() -> None:
    fields = {field.name for field in all_fields().values()}
    for name, option in known_options().items():
        for value in option.choices or (True, 1):
            for problem in option_problems({name: value}):
                named = re.findall(r"(?<=Set )\S+", problem.fix)
                assert set(named) <= fields, problem
                if problem.code is EngineCode.OPTION_VALUE and ": " in problem.fix:
                    advised = problem.fix.partition(": ")[2].rstrip(".").split(", ")
                    assert all(option_problems({name: word}) == [] for word in advised), problem
    for name, (values, _) in PLANNED_VALUES.items():
        assert all(option_problems({name: value}) == [] for value in values)


def test_a_field_that_an_advice_names_decides_the_option() -> None:
    """A constant is no choice of a field: what nobody can set elsewhere must not be sent there."""
    constants = {flag.name: flag.field for flag in FLAGS if _constant(flag)}
    assert {name: field for name, field in constants.items() if field} == {}


def _constant(flag: Flag) -> bool:
    """True if the code of a flag's value looks at nothing of the plan."""
    names = flag.value.__code__.co_names if hasattr(flag.value, "__code__") else ()
    inner = [cell.cell_contents for cell in flag.value.__closure__ or ()]
    return not names and not any(
        getattr(f, "__code__", None) and f.__code__.co_names for f in inner
    )


@pytest.mark.parametrize(
    "option",
    [
        # fp32 with the distributed optimizer cannot resume without it; see the page on the engine.
        "dist-ckpt-optim-fully-reshardable",
        "ckpt-format",
        "no-save-optim",
        "no-load-optim",
        "no-save-rng",
        "no-load-rng",
        "enable-msc",
        *(name for name in known_options() if name.startswith("non-persistent-")),
    ],
)
def test_what_would_keep_a_run_from_resuming_is_refused(option: str) -> None:
    (problem,) = option_problems({option: True})
    assert problem.code in (EngineCode.MODELLED_OPTION, EngineCode.DERIVED_OPTION)
    assert problem.fix


def test_what_is_usually_on_can_be_switched_off() -> None:
    assert option_problems({"manual-gc": False}) == []
    words = command_line(engine_arguments(resolved("engine.options.manual-gc=false")))
    assert "--manual-gc" not in words


def test_a_toggle_that_is_off_has_its_other_name() -> None:
    words = command_line(engine_arguments(resolved("engine.options.rl-partial-rollouts=false")))
    assert "--no-rl-partial-rollouts" in words


def test_a_value_with_a_dash_ahead_stays_with_its_flag() -> None:
    assert command_line({"exit-interval": -1, "lr": -1e-05}) == [
        "--exit-interval=-1",
        "--lr=-1e-05",
    ]


@pytest.mark.parametrize("backend", ["flash", "fused", "unfused", "local", "auto"])
def test_an_attention_backend_is_called_as_the_engine_calls_it(backend: str) -> None:
    assert option_problems({"attention-backend": backend}) == []
    (problem,) = option_problems({"attention-backend": f"AttnBackend.{backend}"})
    assert problem.fix == "Use one of: flash, fused, unfused, local, auto."


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("overlap-grad-reduce", "gradient_overlap"),
        ("overlap_param_gather", "parameter_overlap"),
        ("tp-comm-overlap", "tensor_overlap"),
        ("no-overlap-p2p-communication", "pipeline_overlap"),
        ("overlap-moe-expert-parallel-comm", "expert_overlap"),
        ("moe-shared-expert-overlap", "shared_expert_overlap"),
        ("moe-token-dispatcher-type", "token_dispatcher"),
        ("moe-flex-dispatcher-backend", "token_dispatcher"),
        ("moe-enable-deepep", "token_dispatcher"),
        ("moe-grouped-gemm", "grouped_experts"),
        ("moe-permute-fusion", "fused_routing"),
        ("moe-router-fusion", "fused_routing"),
        ("cross-entropy-loss-fusion", "fused_loss"),
        ("cuda-graph-impl", "cuda_graphs"),
        ("cuda-graph-modules", "cuda_graphs"),
        ("cuda-graph-scope", "cuda_graphs"),
        ("enable-cuda-graph", "cuda_graphs"),
        ("external-cuda-graph", "cuda_graphs"),
        ("use-precision-aware-optimizer", "moments"),
        ("exp-avg-dtype", "moments"),
        ("exp-avg-sq-dtype", "moments"),
        ("optimizer-cpu-offload", "optimizer_offload"),
        ("optimizer-offload-fraction", "optimizer_offload"),
        ("cpu-offloading-num-layers", "activation_offload"),
    ],
)
def test_an_option_of_the_performance_section_is_set_there(option: str, field: str) -> None:
    (problem,) = option_problems({option: True})
    assert problem.code is EngineCode.MODELLED_OPTION
    assert problem.fix == f"Set performance.{field} instead."


@pytest.mark.parametrize("optimizer", ["muon", "dist_muon", "adaptive_muon", "soap", "lion", "sgd"])
def test_an_optimizer_that_the_plan_does_not_count_is_refused(optimizer: str) -> None:
    (problem,) = option_problems({"optimizer": optimizer})
    assert problem.code is EngineCode.DERIVED_OPTION
    assert "the memory and step time of Adam" in problem.rule
    assert option_problems({"optimizer": "adam"}) == []


@pytest.mark.parametrize(
    ("option", "value", "fix"),
    [
        ("exit-interval", 1.5, "Use an integer."),
        ("moe-z-loss-coeff", "word", "Use a number."),
    ],
)
def test_a_value_that_the_engines_own_type_does_not_parse_is_refused(
    option: str, value: OptionValue, fix: str
) -> None:
    (problem,) = option_problems({option: value})
    assert (problem.code, problem.fix) == (EngineCode.OPTION_VALUE, fix)


@pytest.mark.parametrize(
    ("option", "value", "fix"),
    [
        ("window-size", "word", "Use comma-separated integers, such as '512,0'."),
        ("window-size", "512,0", ""),
        ("no-rope-freq", "word", "Use an integer, or a pattern such as '([0]*3+[1]*1)*2'."),
        ("no-rope-freq", "([0]*3+[1]*1)*2", ""),
        ("no-rope-freq", 4, ""),
    ],
)
def test_pairs_and_patterns_are_parsed_as_the_engine_does(
    option: str, value: OptionValue, fix: str
) -> None:
    assert known_options()[option].value_fix(value) == fix


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("manual-gc", True),
        ("moe_router_dtype", "fp32"),
        ("offload-modules", ("core_attn", "attn_proj")),
        ("distributed-timeout-minutes", 30),
        ("distributed-timeout-minutes", "30"),
        ("exit-signal", "SIGUSR1"),
    ],
)
def test_options_of_the_engine_pass(option: str, value: OptionValue) -> None:
    assert option_problems({option: value}) == []


@pytest.mark.parametrize(
    ("option", "value", "code", "fix"),
    [
        ("manual-gcc", True, EngineCode.UNKNOWN_OPTION, "Did you mean manual-gc?"),
        ("zzz", 1, EngineCode.UNKNOWN_OPTION, "See the engine's --help for valid options."),
        ("bf16", True, EngineCode.MODELLED_OPTION, "Set training.precision instead."),
        (
            "tensor_model_parallel_size",
            8,
            EngineCode.MODELLED_OPTION,
            "Set parallelism.tp_size instead.",
        ),
        (
            "manual-gc",
            3,
            EngineCode.OPTION_VALUE,
            "Use true or false.",
        ),
        (
            "exit-interval",
            True,
            EngineCode.OPTION_VALUE,
            "Use a value instead of true or false.",
        ),
        (
            "rampup-batch-size",
            (1, 2, 3),
            EngineCode.DERIVED_OPTION,
            "Set training.batch_schedule instead.",
        ),
        (
            "step-batch-size-schedule",
            "0:32 1M:64",
            EngineCode.MODELLED_OPTION,
            "Set training.batch_schedule instead.",
        ),
        ("tensorboard-log-interval", "abc", EngineCode.OPTION_VALUE, "Use an integer."),
        ("optimizer", "banana", EngineCode.OPTION_VALUE, None),
        ("exit-interval", (1, 2), EngineCode.OPTION_VALUE, "Use one value instead of a list."),
    ],
)
def test_other_options_are_refused_with_the_remedy(
    option: str, value: OptionValue, code: EngineCode, fix: str | None
) -> None:
    (problem,) = option_problems({option: value})
    assert problem.code is code
    assert problem.field == f"engine.options.{option}"
    assert fix is None or problem.fix == fix


def problems(*overrides: str) -> list[str]:
    """The fields that the spec's engine refuses."""
    spec = loaded(*overrides)
    return [finding.where.field for finding in plan_findings(spec, plan_spec(spec, Catalog()))]


LAYOUT_OF_FOUNDRY = ("parallelism.tp_size=1", "parallelism.sequence_parallel=false")


@pytest.mark.parametrize(
    ("overrides", "fields"),
    [
        ((), []),
        (
            ("engine.name=llm-foundry",),
            [
                "model.preset",
                "parallelism.tp_size",
                "parallelism.sharding",
                "parallelism.recompute",
            ],
        ),
        (
            (
                "engine.name=llm-foundry",
                "model.preset=mpt-7b",
                "parallelism.sharding=fsdp",
                "parallelism.recompute=full",
                *LAYOUT_OF_FOUNDRY,
            ),
            [],
        ),
        (
            (
                "model={dimensions: {family: gpt, layers: 8, hidden_size: 512, heads: 8, "
                "vocab_size: 32000, max_positions: 4096, positions: alibi, "
                "norm: layernorm-no-bias}}",
            ),
            ["model.dimensions.positions", "model.dimensions.norm"],
        ),
    ],
)
def test_an_engine_says_what_it_cannot_do(overrides: tuple[str, ...], fields: list[str]) -> None:
    assert problems(*overrides) == fields
