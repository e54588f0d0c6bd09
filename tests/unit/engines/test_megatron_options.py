# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Options that are passed through are checked against the engine's own list."""

import pytest

from seatrial.engines.engine import EngineCode
from seatrial.engines.megatron.options import MODELLED, known_options, option_problems
from seatrial.spec.engine import OptionValue
from seatrial.spec.fields import all_fields


def test_every_modelled_option_exists_and_names_a_field() -> None:
    fields = {field.name for field in all_fields().values()}
    assert set(MODELLED) <= set(known_options())
    assert set(MODELLED.values()) <= fields


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
        ("exit-interval", (1, 2), EngineCode.OPTION_VALUE, "Write one value instead of a list."),
    ],
)
def test_other_options_are_refused_with_the_remedy(
    option: str, value: OptionValue, code: EngineCode, fix: str
) -> None:
    (problem,) = option_problems({option: value})
    assert (problem.code, problem.fix) == (code, fix)
