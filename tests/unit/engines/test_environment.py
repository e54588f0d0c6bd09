# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine and the worker ask of the environment."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.llm_foundry.support import plan_problems as foundry_problems
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.engine import MegatronEngine, engine_environment
from tests.conftest import loaded, plan_spec

ONE = ("parallelism.tp_size=1", "parallelism.sequence_parallel=false")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (ONE, {}),
        ((), {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
        (
            ("data.tokenizer=hf://some/where@abc",),
            {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "SEATRIAL_TOKENIZER_REVISION": "abc"},
        ),
        (
            ("initial_weights={huggingface: hf://some/where@abc}", *ONE),
            {"SEATRIAL_INITIAL_WEIGHTS": "hf://some/where@abc"},
        ),
        (("initial_weights={checkpoint: /data/start}", *ONE), {}),
        (
            ("continue_from={run: first}", "cluster.storage={mount: /shared}", *ONE),
            {"SEATRIAL_CONTINUE_FROM": "/shared/first/checkpoints"},
        ),
        (
            (
                "continue_from={run: first, checkpoints: /old, step: 7, reset_schedule: true}",
                *ONE,
            ),
            {
                "SEATRIAL_CONTINUE_FROM": "/old",
                "SEATRIAL_CONTINUE_STEP": "7",
                "SEATRIAL_CONTINUE_ANEW": "1",
            },
        ),
    ],
)
def test_the_environment_of_a_plan(overrides: tuple[str, ...], expected: dict[str, str]) -> None:
    assert engine_environment(plan_spec(loaded(*overrides), Catalog())) == expected


def test_weights_are_loaded_from_where_the_worker_puts_them() -> None:
    for value, place in (
        ("{huggingface: hf://some/where}", "/here/checkpoints/initial-weights"),
        ("{checkpoint: /data/start}", "/data/start"),
    ):
        spec = loaded(f"initial_weights={value}", "checkpoints.location=/here/checkpoints")
        arguments = engine_arguments(plan_spec(spec, Catalog()))
        assert arguments["pretrained-checkpoint"] == place


@pytest.mark.parametrize(
    "beginning", ["initial_weights={huggingface: hf://some/where}", "continue_from={run: first}"]
)
def test_a_beginning_that_nobody_carries_out_is_refused(beginning: str) -> None:
    field = {"i": "initial_weights.huggingface", "c": "continue_from"}[beginning[0]]
    fsdp = plan_spec(loaded(beginning, "parallelism.sharding=fsdp"), Catalog())
    assert field in [problem.field for problem in MegatronEngine().plan_problems(fsdp)]
    plain = plan_spec(loaded(beginning), Catalog())
    assert MegatronEngine().plan_problems(plain) == []
    assert field in [problem.field for problem in foundry_problems(plain)]
