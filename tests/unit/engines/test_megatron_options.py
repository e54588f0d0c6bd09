# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Options that are passed through are checked against the engine's own list."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.check import plan_findings
from seatrial.engines.engine import EngineCode
from seatrial.engines.megatron.options import (
    DERIVED,
    MODELLED,
    known_options,
    option_problems,
)
from seatrial.planning.resolve import resolve
from seatrial.spec.engine import OptionValue
from seatrial.spec.fields import all_fields
from tests.conftest import loaded


def test_every_modelled_option_exists_and_names_a_field() -> None:
    fields = {field.name for field in all_fields().values()}
    assert set(MODELLED) <= set(known_options())
    assert set(DERIVED) <= set(known_options())
    assert not set(DERIVED) & set(MODELLED)
    assert set(MODELLED.values()) <= fields


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
    assert option_problems({"moe-grouped-gemm": False}) == []
    (problem,) = option_problems({"manual-gc": False})
    assert problem.code is EngineCode.OPTION_VALUE


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("manual-gc", True),
        ("moe_router_dtype", "fp32"),
        ("cuda-graph-modules", ("attn", "mlp")),
        ("distributed-timeout-minutes", 30),
    ],
)
def test_options_of_the_engine_pass(option: str, value: OptionValue) -> None:
    assert option_problems({option: value}) == []


@pytest.mark.parametrize(
    ("option", "value", "code", "fix"),
    [
        ("manual-gcc", True, EngineCode.UNKNOWN_OPTION, "Did you mean manual-gc?"),
        ("zzz", 1, EngineCode.UNKNOWN_OPTION, "Look it up in the engine's --help."),
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
            "Write true, or remove the line to leave it off.",
        ),
        (
            "exit-interval",
            True,
            EngineCode.OPTION_VALUE,
            "Write the value instead of true or false.",
        ),
        ("rampup-batch-size", (1, 2, 3), EngineCode.DERIVED_OPTION, "Remove it."),
        ("tensorboard-log-interval", "abc", EngineCode.OPTION_VALUE, "Write a whole number."),
        ("optimizer", "banana", EngineCode.OPTION_VALUE, None),
        ("exit-interval", (1, 2), EngineCode.OPTION_VALUE, "Write one value instead of a list."),
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
    return [finding.where.field for finding in plan_findings(spec, resolve(spec, Catalog()))]


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
