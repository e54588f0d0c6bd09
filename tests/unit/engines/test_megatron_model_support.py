# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a model that Megatron cannot train are refused; their neighbours are not."""

import json

import pytest

from seatrial.codes.engines import EngineCode
from seatrial.engines.megatron.model_support import CASES, model_problems
from tests.conftest import resolved

LATENT = {"kv_rank": 64, "q_rank": 96, "qk_head_dim": 32, "rope_head_dim": 16, "value_head_dim": 24}
YARN = {"kind": "yarn", "factor": 4, "original_positions": 4096}
MOE = {"experts": 16, "top_k": 4, "expert_ffn_hidden_size": 64}
SIGMOID = MOE | {"score": "sigmoid"}
CP = ("parallelism.cp_size=2",)
A2A = "engine.options.cp-comm-type=[a2a]"
GATHER = "engine.options.cp-comm-type=[all_gather]"
P2P = "engine.options.cp-comm-type=[p2p]"
WINDOW = {"tokens": 64}
Model = dict[str, object]


def problems(model: Model, *overrides: str) -> list[str]:
    """The fields at which a model is refused."""
    sizes = "layers: 8, hidden_size: 512, heads: 8, vocab_size: 1000, max_positions: 4096"
    parts = "".join(f", {name}: {json.dumps(value)}" for name, value in model.items())
    dimensions = f"model={{dimensions: {{family: llama, {sizes}{parts}}}}}"
    found = list(model_problems(resolved(dimensions, "parallelism.tp_size=2", *overrides)))
    assert all(problem.code is EngineCode.UNSUPPORTED for problem in found)
    assert all(problem.rule.endswith(".") and problem.fix.endswith(".") for problem in found)
    return [problem.field for problem in found]


Example = tuple[str, Model, tuple[str, ...], Model, tuple[str, ...]]
LLAMA3 = {"kind": "llama3", "factor": 8}
EXAMPLES: list[Example] = [
    ("positions", {"positions": "alibi"}, (), {"positions": "learned"}, ()),
    ("norm", {"norm": "layernorm-no-bias"}, (), {"norm": "layernorm"}, ()),
    (
        "norm_centered_at_one",
        {"norm_centered_at_one": True},
        ("engine.options.transformer-impl=local",),
        {"norm_centered_at_one": True},
        (),
    ),
    ("head_dim", {"head_dim": 63}, (), {"head_dim": 63, "positions": "learned"}, ()),
    ("rope_theta", {"rope_theta": 10000.5}, (), {"rope_theta": 10000.0}, ()),
    (
        "rope_scaling.factor",
        {"rope_scaling": {"kind": "linear", "factor": 2.5}},
        (),
        {"rope_scaling": {"kind": "linear", "factor": 2.0}},
        (),
    ),
    (
        "rope_scaling.kind",
        {"latent_attention": LATENT, "rope_scaling": {"kind": "linear", "factor": 2}},
        (),
        {"latent_attention": LATENT, "rope_scaling": YARN},
        (),
    ),
    (
        "rotary_fraction",
        {"rope_scaling": YARN, "rotary_fraction": 0.5},
        (),
        {"rope_scaling": LLAMA3, "rotary_fraction": 0.5},
        (),
    ),
    (
        "mtp_layers",
        {"mtp_layers": 1, "rope_scaling": YARN},
        (),
        {"mtp_layers": 1, "rope_scaling": YARN, "latent_attention": LATENT},
        (),
    ),
    (
        "no_rope_every",
        {"no_rope_every": 4, "latent_attention": LATENT},
        (),
        {"no_rope_every": 4},
        (),
    ),
    (
        "parallelism.sequence_parallel",
        {"latent_attention": LATENT},
        ("parallelism.sequence_parallel=false",),
        {"latent_attention": LATENT},
        (),
    ),
    (
        "parallelism.cp_size",
        {"latent_attention": LATENT, "window": WINDOW},
        CP,
        {"latent_attention": LATENT},
        CP,
    ),
    (
        "parallelism.cp_size",
        {"attention_sinks": True, "kv_heads": 2},
        CP,
        {"attention_sinks": True, "kv_heads": 4},
        CP,
    ),
    (
        "engine.options.cp-comm-type",
        {"attention_sinks": True},
        (*CP, GATHER),
        {"attention_sinks": True},
        (*CP, A2A),
    ),
    (
        "engine.options.cp-comm-type",
        {"window": WINDOW},
        (*CP, P2P),
        {"window": WINDOW},
        (*CP, GATHER),
    ),
    (
        "engine.options.attention-backend",
        {"attention_sinks": True},
        ("engine.options.attention-backend=flash",),
        {"attention_sinks": True},
        ("engine.options.attention-backend=fused",),
    ),
    (
        "moe.normalize_top_k",
        {"moe": SIGMOID | {"normalize_top_k": False}},
        (),
        {"moe": MOE | {"normalize_top_k": False}},
        (),
    ),
    (
        "moe.groups_per_token",
        {"moe": MOE | {"top_k": 2, "groups": 4, "groups_per_token": 3}},
        (),
        {"moe": MOE | {"groups": 4, "groups_per_token": 3}},
        (),
    ),
]


def test_each_case_has_an_example() -> None:
    assert len(EXAMPLES) == len(CASES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[0])
def test_a_model_that_megatron_cannot_train_is_refused(example: Example) -> None:
    name, wrong, overrides, right, others = example
    field = (
        name if "." in name and not name.startswith(("moe", "rope")) else f"model.dimensions.{name}"
    )
    assert problems(wrong, *overrides) == [field]
    assert problems(right, *others) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("original_positions", 4096), ("low_frequency_factor", 2.0), ("high_frequency_factor", 8.0)],
)
def test_the_constants_of_llama_3_are_fixed(name: str, value: float) -> None:
    assert problems({"rope_scaling": LLAMA3}) == []
    changed: Model = {"rope_scaling": LLAMA3 | {name: value}}
    assert problems(changed) == [f"model.dimensions.rope_scaling.{name}"]


@pytest.mark.parametrize(
    ("name", "value", "is_fixed"),
    [
        ("original_positions", 8192, False),
        ("beta_fast", 16.0, False),
        ("beta_slow", 2.0, False),
        ("rounded", False, True),
    ],
)
def test_in_latent_attention_the_ramp_of_yarn_is_rounded(
    name: str, value: float, is_fixed: bool
) -> None:
    scaling: Model = {"rope_scaling": YARN | {name: value}}
    assert problems(scaling) == []
    fields = [f"model.dimensions.rope_scaling.{name}"] if is_fixed else []
    assert problems(scaling | {"latent_attention": LATENT}) == fields


def test_only_the_rotated_part_of_a_head_must_be_even() -> None:
    assert problems({"head_dim": 64, "rotary_fraction": 0.33}) == ["model.dimensions.head_dim"]
    assert problems({"head_dim": 65, "rotary_fraction": 0.5}) == []
    odd = LATENT | {"rope_head_dim": 15}
    assert "model.dimensions.head_dim" in problems({"latent_attention": odd})
