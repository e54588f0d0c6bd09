# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of each stage, counted by a plan and in the engine's own model."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.spec.loader import loads
from tests.conftest import plan_spec
from tests.engine.agreement.asking import question_of
from tests.engine.agreement.compare import Engine, engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

USUAL: dict[str, Any] = {
    "family": "llama",
    "layers": 4,
    "hidden_size": 256,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 64,
    "ffn_hidden_size": 512,
    "vocab_size": 1000,
    "max_positions": 1024,
}
LATENT: dict[str, Any] = {
    "kv_heads": 4,
    "latent_attention": {
        "kv_rank": 64,
        "q_rank": 96,
        "qk_head_dim": 32,
        "rope_head_dim": 16,
        "value_head_dim": 48,
    },
}
WITHOUT_QUERY_RANK: dict[str, Any] = {
    "kv_heads": 4,
    "latent_attention": {
        "kv_rank": 64,
        "qk_head_dim": 32,
        "rope_head_dim": 16,
        "value_head_dim": 48,
    },
}
EXPERTS = {"experts": 8, "top_k": 2, "expert_ffn_hidden_size": 128}
SHARED = EXPERTS | {"shared_expert_ffn_hidden_size": 64, "dense_layers": 1}
ROUTED = SHARED | {"score": "sigmoid", "expert_bias": True, "groups": 4, "groups_per_token": 2}
OSS: dict[str, Any] = {
    "activation": "clamped-swiglu",
    "linear_bias": True,
    "attention_sinks": True,
    "window": {"tokens": 128, "full_every": 2},
    "moe": EXPERTS,
}
MODELS: dict[str, dict[str, Any]] = {
    "latent": LATENT,
    "latent-layernorm": LATENT | {"norm": "layernorm"},
    "latent-without-query-rank": WITHOUT_QUERY_RANK,
    "prediction": {"mtp_layers": 2},
    "prediction-tied": {"mtp_layers": 1, "tied_embeddings": True},
    "prediction-layernorm": {"mtp_layers": 1, "norm": "layernorm", "activation": "squared-relu"},
    "shared-experts": {"moe": SHARED},
    "biases-and-sinks": OSS,
    "alternating": {"moe": EXPERTS | {"layer_interval": 2}},
    "alternating-prediction": {
        "layers": 6,
        "mtp_layers": 1,
        "moe": EXPERTS | {"layer_interval": 2, "dense_layers": 1},
    },
    "layernorm-of-heads": {"norm": "layernorm", "qk_norm": True},
    "deepseek": LATENT | {"mtp_layers": 1, "moe": ROUTED},
}
LAYOUTS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 2)]
"""tp, pp and, of models with experts, ep."""


@pytest.fixture(scope="module")
def asked() -> Iterator[Engine]:
    with engine() as started:
        yield started


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("tp", "pp", "ep"), LAYOUTS)
def test_a_plan_counts_what_the_engine_builds(
    asked: Engine, name: str, tp: int, pp: int, ep: int
) -> None:
    dimensions = USUAL | MODELS[name]
    if "latent_attention" in dimensions:
        del dimensions["head_dim"]
    spec = {
        "apiVersion": "seatrial.dev/v1alpha1",
        "name": "counted",
        "model": {"dimensions": dimensions},
        "data": {"mock": True},
        "training": {
            "steps": 100,
            "sequence_length": 512,
            "micro_batch_size": 1,
            "global_batch_size": 8,
        },
        "parallelism": {
            "tp_size": tp,
            "pp_size": pp,
            "cp_size": 1,
            "ep_size": ep if "moe" in dimensions else 1,
            "sequence_parallel": tp > 1,
        },
        "cluster": {"profile": "eks", "node_type": "p5.48xlarge", "nodes": 1},
    }
    plan = plan_spec(loads(json.dumps(spec), name), Catalog())
    stages = tuple(range(plan.layout.pp_size))
    answer = asked.request(question_of(plan, 0, stages))
    assert answer["accepted"] is True, answer["reason"]
    counts = {int(stage): count for stage, count in answer["parameters"].items()}
    assert counts == {stage: plan.stage_parameters[stage] for stage in stages}
