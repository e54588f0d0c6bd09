# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether weights are those of a run's own model."""

from dataclasses import replace
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.exchange.import_plan import misfits
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.hub_model import model_of_arguments, option_fix
from seatrial.findings import Severity
from seatrial.huggingface.config import HubModel, read_config
from seatrial.recipes.shipped import recipe
from seatrial.spec.loader import load
from tests.conftest import plan_spec
from tests.unit.checkpoints.exchange.models import BY_TYPE, GPT2, changed
from tests.unit.checkpoints.exchange.models import LLAMA as SCALED

LLAMA = changed(SCALED, rope_theta=10000.0, rope_scaling=None)
LATENT, MIXTRAL = BY_TYPE["deepseek_v3"], BY_TYPE["mixtral"]


def found(weights: HubModel, run: HubModel, padded: int = 128) -> list[tuple[str, str]]:
    """Severity and fix of every difference."""
    return [
        (one.severity, one.fix)
        for one in misfits(weights, run, "hf://some/where", padded, option_fix)
    ]


def with_experts(model: HubModel, **changes: Any) -> HubModel:
    moe = model.architecture.moe
    assert moe is not None
    return changed(model, moe=moe.model_dump() | changes)


@pytest.mark.parametrize(
    ("weights", "run", "override"),
    [
        (changed(LLAMA, layers=5), LLAMA, "layers=5"),
        (changed(LLAMA, norm_epsilon=1e-6), LLAMA, "norm_epsilon=1e-06"),
        (changed(LLAMA, rope_theta=500000.0), LLAMA, "rope_theta=500000.0"),
        (changed(LLAMA, tied_embeddings=True), LLAMA, "tied_embeddings=true"),
        (changed(LLAMA, linear_bias=True), LLAMA, "linear_bias=true"),
        (changed(LLAMA, vocab_size=129), LLAMA, "vocab_size=129"),
        (changed(LLAMA, window={"tokens": 16}), LLAMA, 'window={"tokens": 16, "full_every": null}'),
        (with_experts(LATENT, scaling_factor=1.0), LATENT, "moe.scaling_factor=1.0"),
        (LATENT, with_experts(LATENT, score="softmax", expert_bias=False), "moe.score=sigmoid"),
        (changed(LATENT, mtp_layers=0), LATENT, "mtp_layers=0"),
    ],
)
def test_what_no_engine_would_notice_is_found(
    weights: HubModel, run: HubModel, override: str
) -> None:
    fix = f"Use model.dimensions.{override}, or weights that match the run's model."
    assert (Severity.ERROR, fix) in found(weights, run)


@pytest.mark.parametrize(
    ("weights", "run"),
    [
        (LLAMA, LLAMA),
        # A longer sequence, more tokens, and how training goes on are the run's own affair.
        (LLAMA, changed(LLAMA, max_positions=128)),
        (LLAMA, changed(LLAMA, vocab_size=110)),
        (LLAMA, replace(LLAMA, init_std=0.01)),
        (MIXTRAL, with_experts(MIXTRAL, aux_loss_coefficient=0.1)),
        (MIXTRAL, changed(MIXTRAL, ffn_hidden_size=128)),
        (LATENT, changed(LATENT, mtp_layers=0)),
        (GPT2, changed(GPT2, rope_theta=500000.0)),
        # Mistral without a window is Llama.
        (replace(LLAMA, model_type="mistral"), LLAMA),
    ],
)
def test_what_makes_no_other_model_fits(weights: HubModel, run: HubModel) -> None:
    assert found(weights, run) == []


def test_a_table_of_positions_has_a_length() -> None:
    ((severity, fix),) = found(GPT2, changed(GPT2, max_positions=128))
    assert severity is Severity.ERROR
    assert "model.dimensions.max_positions=64" in fix


def test_the_gelu_of_the_device_is_a_warning() -> None:
    ((severity, fix),) = found(GPT2, replace(GPT2, exact_gelu=True))
    assert severity is Severity.WARNING
    assert "engine.options.no-bias-gelu-fusion=false" in fix


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
    run = model_of_arguments(engine_arguments(plan), "")
    assert found(read_config(LLAMA_2, ""), run, plan.model.padded_vocab_size) == []
