# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether weights are those of a run's own model."""

from dataclasses import replace
from typing import Any

import pytest

from seatrial.checkpoints.exchange.fitting import misfits
from seatrial.checkpoints.exchange.model import Activation, HubClass, HubModel
from seatrial.findings import Severity

LLAMA = HubModel(
    kind=HubClass.LLAMA,
    layers=4,
    hidden_size=64,
    ffn_hidden_size=96,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab_size=101,
    max_positions=64,
    norm_epsilon=1e-5,
    activation=Activation.SILU,
    biases=False,
    tied_embeddings=False,
)
GPT2 = replace(LLAMA, kind=HubClass.GPT2, kv_heads=4, biases=True, activation=Activation.GELU_TANH)


def found(weights: HubModel, run: HubModel, padded: int = 128) -> list[tuple[str, str]]:
    """Severity and fix of every difference."""
    return [(one.severity, one.fix) for one in misfits(weights, run, "hf://some/where", padded)]


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
    assert said == [(Severity.ERROR, f"Use {override}, or weights of the run's own model.")]


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
    ((severity, _),) = found(GPT2, replace(GPT2, activation=Activation.GELU))
    assert severity is Severity.WARNING
