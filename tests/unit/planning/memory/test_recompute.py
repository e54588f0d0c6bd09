# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What each module of selective recomputing leaves out."""

from typing import Any

import pytest

from seatrial.planning.memory.activations import LayerActivations, layer_activations
from seatrial.planning.memory.states import model_counts, stage_layers
from seatrial.planning.workload import Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, RecomputeModule
from tests.unit.planning.memory.test_estimate import EXPERTS, GPT, KORTHIKANTI, workload

TOKENS = 2048 * 4
LATENT: dict[str, Any] = {"attention_weights": 10_000_000}
ROUTED = 2 * KORTHIKANTI.expert_imbalance


def kept(model: Architecture, *modules: RecomputeModule, **changes: Any) -> LayerActivations:
    """What a layer keeps with the modules, in bytes a token and unit of width."""
    load = workload(
        model,
        recompute=Recompute.SELECTIVE if modules else Recompute.NONE,
        recompute_modules=frozenset(modules),
        **changes,
    )
    found = layer_activations(load, KORTHIKANTI)
    return LayerActivations(*(amount / TOKENS / model.hidden_size for amount in found))


# The inner width is four times the width, of experts twice, of the shared one half.
DENSE = [
    (RecomputeModule.CORE_ATTENTION, {}, 0.0),
    (RecomputeModule.LAYERNORM, {}, 0.0),
    (RecomputeModule.LAYERNORM, LATENT, 2.0),
    (RecomputeModule.MLP, {}, 2 + 4 * 4),
    (RecomputeModule.MLA_UP_PROJ, LATENT, 2 * 512 * GPT.heads / GPT.hidden_size),
    (RecomputeModule.MOE, {}, 0.0),
]
WITH_EXPERTS = [
    (RecomputeModule.CORE_ATTENTION, {}, 0.0),
    (RecomputeModule.LAYERNORM, {}, 2.0),
    (RecomputeModule.LAYERNORM, LATENT, 4.0),
    (RecomputeModule.MLP, {}, 0.0),
    # Its input, and what the router's weights multiply.
    (RecomputeModule.MOE_ACT, {}, 2 * (2 + 2) * ROUTED),
    (RecomputeModule.SHARED_EXPERTS, {}, 4 * 0.5),
    (RecomputeModule.MOE, {}, (2 + 2 * (4 + 2)) * ROUTED + 4 * 0.5),
]


@pytest.mark.parametrize(("module", "changes", "saved"), DENSE)
def test_a_dense_layer(module: RecomputeModule, changes: dict[str, Any], saved: float) -> None:
    plain, less = kept(GPT, **changes), kept(GPT, module, **changes)
    assert plain.kept - less.kept == pytest.approx(saved)
    assert less.working == plain.working


@pytest.mark.parametrize(("module", "changes", "saved"), WITH_EXPERTS)
def test_a_layer_with_experts(
    module: RecomputeModule, changes: dict[str, Any], saved: float
) -> None:
    plain, less = kept(EXPERTS, **changes), kept(EXPERTS, module, **changes)
    assert plain.kept_expert - less.kept_expert == pytest.approx(saved)
    assert less.working == plain.working


def test_modules_add_up() -> None:
    modules = (RecomputeModule.LAYERNORM, RecomputeModule.MOE_ACT)
    plain, both = kept(EXPERTS), kept(EXPERTS, *modules)
    each = [plain.kept_expert - kept(EXPERTS, module).kept_expert for module in modules]
    assert plain.kept_expert - both.kept_expert == pytest.approx(sum(each))


def test_scores_stay_where_only_another_module_is_computed_again() -> None:
    changes: dict[str, Any] = {"flash_attention": False}
    scores = 5 * GPT.heads * 2048 / GPT.hidden_size
    attention = kept(GPT, RecomputeModule.CORE_ATTENTION, **changes)
    feed = kept(GPT, RecomputeModule.MLP, **changes)
    assert kept(GPT, **changes).kept - attention.kept == pytest.approx(scores)
    assert kept(GPT, **changes).kept - feed.kept == pytest.approx(2 + 4 * 4)


def test_a_gated_expert_weighs_inside_its_kernel() -> None:
    gated = EXPERTS.replace(activation="swiglu")
    plain, less = kept(gated), kept(gated, RecomputeModule.MOE_ACT)
    assert plain.kept_expert - less.kept_expert == pytest.approx(2 * 2 * ROUTED)


def expert_layers(load: Workload) -> list[int]:
    """Layers with experts of each stage."""
    return [stage_layers(load, stage.index).expert for stage in load.stages]


def test_experts_in_every_other_layer() -> None:
    assert expert_layers(workload(EXPERTS, pp_size=4)) == [3, 6, 6, 6]
    # Of layers 3 to 23 every second: 4, 6, ... 22.
    assert expert_layers(workload(EXPERTS, pp_size=4, moe_every=2)) == [1, 3, 3, 3]


def test_latent_attention_has_its_own_parameters() -> None:
    grouped = 4 * GPT.hidden_size**2
    plain, latent = model_counts(workload()), model_counts(workload(**LATENT))
    assert plain.dense_layer - latent.dense_layer == grouped - LATENT["attention_weights"]
