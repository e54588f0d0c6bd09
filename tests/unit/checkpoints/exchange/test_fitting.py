# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether weights are those of a run's own model."""

from dataclasses import replace
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.exchange.hub_config import model_of_config
from seatrial.checkpoints.exchange.import_plan import misfits
from seatrial.checkpoints.exchange.model import HubActivation, HubClass, HubModel
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.hub_model import model_of_arguments, option_fix
from seatrial.findings import Severity
from seatrial.recipes.shipped import recipe
from seatrial.spec.loader import load
from tests.conftest import plan_spec
from tests.unit.checkpoints.exchange.models import LLAMA as SMALL

LLAMA = replace(SMALL, max_positions=64, norm_epsilon=1e-5, rope_theta=10000.0, rope_scaling=None)
GPT2 = replace(
    LLAMA, kind=HubClass.GPT2, kv_heads=4, biases=True, activation=HubActivation.GELU_TANH
)


def found(weights: HubModel, run: HubModel, padded: int = 128) -> list[tuple[str, str]]:
    """Severity and fix of every difference."""
    return [
        (one.severity, one.fix)
        for one in misfits(weights, run, "hf://some/where", padded, option_fix)
    ]


@pytest.mark.parametrize(
    ("changed", "override"),
    [
        ({"layers": 5}, "model.dimensions.layers=5"),
        ({"norm_epsilon": 1e-6}, "engine.options.norm-epsilon=1e-06"),
        ({"rope_theta": 500000.0}, "model.dimensions.rope_theta=500000.0"),
        ({"tied_embeddings": True}, "model.dimensions.tied_embeddings=true"),
        ({"biases": True}, "model.dimensions.linear_bias=true"),
        (
            {"rope_scaling": 8.0},
            "engine.options.use-rope-scaling=true and engine.options.rope-scaling-factor=8.0",
        ),
        ({"vocab_size": 129}, "model.dimensions.vocab_size=129"),
    ],
)
def test_what_no_engine_would_notice_is_found(changed: dict[str, Any], override: str) -> None:
    said = found(replace(LLAMA, **changed), LLAMA)
    assert said == [(Severity.ERROR, f"Use {override}, or weights that match the run's model.")]


@pytest.mark.parametrize(
    ("weights", "run"),
    [
        (LLAMA, LLAMA),
        # A longer sequence, more tokens, and how training goes on are the run's own affair.
        (LLAMA, replace(LLAMA, max_positions=128)),
        (LLAMA, replace(LLAMA, vocab_size=110)),
        (LLAMA, replace(LLAMA, init_std=0.01, aux_loss_coefficient=0.1)),
        (GPT2, replace(GPT2, rope_theta=500000.0)),
    ],
)
def test_what_makes_no_other_model_fits(weights: HubModel, run: HubModel) -> None:
    assert found(weights, run) == []


def test_a_table_of_positions_has_a_length() -> None:
    ((severity, fix),) = found(GPT2, replace(GPT2, max_positions=128))
    assert severity is Severity.ERROR
    assert "model.dimensions.max_positions=64" in fix


def test_the_gelu_of_the_device_is_a_warning() -> None:
    ((severity, _),) = found(GPT2, replace(GPT2, activation=HubActivation.GELU))
    assert severity is Severity.WARNING


LLAMA_2 = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "vocab_size": 32000,
}
"""What config.json of meta-llama/Llama-2-7b-hf says of the model."""


def test_the_recipe_begins_with_weights_of_its_own_model() -> None:
    plan = plan_spec(load(recipe("eks-llama2-7b-p4d").path), Catalog())
    weights = plan.spec.initial_weights
    assert weights is not None
    assert weights.huggingface == "hf://meta-llama/Llama-2-7b-hf"
    told = {name.replace("-", "_"): value for name, value in engine_arguments(plan).items()}
    run = model_of_arguments(told, "")
    assert found(model_of_config(LLAMA_2, ""), run, plan.model.padded_vocab_size) == []
