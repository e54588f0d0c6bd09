# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Memory of latent attention, multi-token prediction and alternating experts."""

from dataclasses import replace
from itertools import pairwise

import pytest

from seatrial.planning.memory.activations import layer_activations
from seatrial.planning.memory.estimate import deciding_stages, every_stage, logit_memory
from seatrial.planning.memory.states import model_counts, stage_layers, stage_parameters
from seatrial.planning.parameters import rank_parameters
from seatrial.planning.workload import PUBLISHED_LATENT
from seatrial.spec.model import Activation
from seatrial.spec.parallelism import Recompute, RecomputeModule
from tests.unit.planning.architectures import (
    ALTERNATING,
    DEEPSEEK_V3,
    FAMILIES,
    GPT_OSS,
    MOONLIGHT,
    NEMOTRON,
    alternating,
)
from tests.unit.planning.memory.test_estimate import KORTHIKANTI, workload

TOKENS = 2048 * 4


@pytest.mark.parametrize("name", sorted(FAMILIES))
@pytest.mark.parametrize(("tp", "pp", "ep"), [(1, 1, 1), (2, 3, 1), (4, 3, 8), (8, 2, 64)])
def test_the_parts_of_each_stage_add_up_to_the_counts_of_a_rank(
    name: str, tp: int, pp: int, ep: int
) -> None:
    model = FAMILIES[name]
    ep = ep if model.moe else 1
    sizes = [model.layers // pp + (n < model.layers % pp) for n in range(pp)]
    load = workload(model, tp_size=tp, pp_size=pp, ep_size=ep, dp_size=64, sizes=sizes)
    counts = model_counts(load)
    for stage in load.stages:
        layers = stage_layers(load, stage.index)
        assert sum(stage_parameters(load, counts, layers, stage.index)) == rank_parameters(
            model, load.padded_vocab_size, load.layout, stage
        )


def test_latent_attention_stores_its_compressed_vectors_and_what_they_are_expanded_to() -> None:
    load = workload(DEEPSEEK_V3)
    usual = DEEPSEEK_V3.replace(latent_attention=None, head_dim=128)
    more = layer_activations(load, KORTHIKANTI).kept
    more -= layer_activations(workload(usual), KORTHIKANTI).kept
    # Queries and keys of 192 instead of 128; vectors of 1536 and 512 before and after their norms.
    expected = 2 * (128 * (64 + 64) + 2 * (1536 + 512) + 64)
    assert more / TOKENS == expected
    again = replace(
        load,
        recompute=Recompute.SELECTIVE,
        recompute_modules=frozenset([RecomputeModule.MLA_UP_PROJ]),
    )
    saved = layer_activations(load, KORTHIKANTI).kept - layer_activations(again, KORTHIKANTI).kept
    assert saved / TOKENS == 2 * 128 * (192 + 192 + 128)


def test_sequence_parallelism_splits_compressed_vectors() -> None:
    whole = workload(MOONLIGHT, tp_size=2, sequence_parallel=False)
    split = workload(MOONLIGHT, tp_size=2, sequence_parallel=True)
    latents = 2 * (2 * 512 + 64)
    residual = KORTHIKANTI.residual_bytes + KORTHIKANTI.dropout_bytes
    norms = residual * MOONLIGHT.hidden_size
    saved = layer_activations(whole, KORTHIKANTI).kept - layer_activations(split, KORTHIKANTI).kept
    assert saved / TOKENS == (latents + norms) / 2


def test_published_runs_without_dimensions_have_those_of_deepseek_v3() -> None:
    assert DEEPSEEK_V3.latent_attention == PUBLISHED_LATENT
    usual = DEEPSEEK_V3.replace(latent_attention=None, head_dim=128)
    stated = workload(usual, attention_weights=187_107_328)
    assert layer_activations(stated, KORTHIKANTI) == layer_activations(
        workload(DEEPSEEK_V3), KORTHIKANTI
    )


def test_multi_token_prediction_is_on_the_last_stage() -> None:
    plain, more = workload(NEMOTRON.replace(mtp_layers=0), pp_size=4), workload(NEMOTRON, pp_size=4)
    without, found = every_stage(plain).stages, every_stage(more).stages
    assert found[:-1] == without[:-1]
    last, before = found[-1], without[-1]
    assert last.logits == 3 * before.logits
    assert last.activations - before.activations > 2 * layer_activations(more, KORTHIKANTI).kept
    # Two layers, the copy of the embedding, two projections and their norms.
    hidden, words = NEMOTRON.hidden_size, more.padded_vocab_size * NEMOTRON.hidden_size
    layer = model_counts(more).dense_layer
    parameters = 2 * (layer + 2 * hidden * hidden + 6 * hidden) + words
    assert last.weights - before.weights == 2 * parameters
    assert stage_layers(more, 3).dense == stage_layers(plain, 3).dense + 2


def test_layers_for_prediction_have_experts_if_the_last_layer_has() -> None:
    assert stage_layers(workload(DEEPSEEK_V3), 0) == (3, 59)
    odd = ALTERNATING.replace(layers=47, mtp_layers=1)
    assert stage_layers(workload(odd), 0) == (25, 23)


def test_one_copy_of_the_logits_for_each_prediction() -> None:
    one = logit_memory(workload(DEEPSEEK_V3.replace(mtp_layers=0)), KORTHIKANTI)
    assert logit_memory(workload(DEEPSEEK_V3), KORTHIKANTI) == 2 * one


def test_the_fullest_stage_is_found_if_experts_alternate() -> None:
    load = workload(alternating(15, 4), pp_size=5, micro_batches=1)
    assert [stage_layers(load, n).expert for n in range(5)] == [0, 1, 1, 1, 0]
    load = workload(alternating(15, 7), pp_size=5, micro_batches=1)
    assert [stage_layers(load, n).expert for n in range(5)] == [0, 0, 1, 0, 1]
    assert deciding_stages(load) == (0, 1, 2, 4)
    totals = {stage.index: stage.total for stage in every_stage(load).stages}
    assert max(totals.values()) == max(totals[n] for n in deciding_stages(load))


def test_a_clamped_gate_is_a_gate_and_a_squared_relu_is_none() -> None:
    gated = layer_activations(workload(GPT_OSS), KORTHIKANTI)
    plain = GPT_OSS.replace(activation=Activation.SWIGLU)
    assert gated == layer_activations(workload(plain), KORTHIKANTI)
    squared = layer_activations(workload(NEMOTRON), KORTHIKANTI)
    for activation, same in ((Activation.GELU, True), (Activation.SWIGLU, False)):
        other = workload(NEMOTRON.replace(activation=activation))
        assert (layer_activations(other, KORTHIKANTI) == squared) is same


def test_earlier_stages_do_not_see_predictions() -> None:
    load = workload(DEEPSEEK_V3.replace(layers=60), pp_size=4, ep_size=8, dp_size=8)
    experts = [stage_layers(load, n).expert for n in range(4)]
    assert experts == [12, 15, 15, 16]
    assert all(one <= other for one, other in pairwise(experts))
