# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Time of latent attention, windows, multi-token prediction and alternating experts."""

from dataclasses import replace

import pytest

from seatrial.planning.attention import attended_share
from seatrial.planning.layout import Layout
from seatrial.planning.stages import stages_of
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.quantities import layer_quantities, quantities, recomputed
from seatrial.planning.timing.step_time import step_time
from seatrial.planning.timing.traffic import stage_counts
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, RecomputeModule
from tests.unit.planning.architectures import (
    ALTERNATING,
    DEEPSEEK_V3,
    GPT_OSS,
    MOONLIGHT,
    NEMOTRON,
    alternating,
)
from tests.unit.planning.timing.workloads import CONSTANTS, GPT3, workload

ONE = Layout()


def test_latent_attention_has_the_products_of_its_weights() -> None:
    weights = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    dense = layer_quantities(workload(ONE, DEEPSEEK_V3)).dense
    assert dense.weights == weights + 3 * 7168 * 18432
    assert dense.flops == 2 * 2048 * dense.weights


def test_ranks_compress_their_part_of_the_sequence() -> None:
    whole, split = (
        layer_quantities(workload(Layout(tp_size=tp), MOONLIGHT)).dense for tp in (1, 4)
    )
    assert split.flops == pytest.approx(whole.flops / 4)
    compressed = MOONLIGHT.hidden_size * 576
    assert split.weights == (whole.weights - compressed) / 4 + compressed


def test_keys_of_latent_attention_are_wider_than_its_values() -> None:
    usual = DEEPSEEK_V3.replace(latent_attention=None, head_dim=128)
    latent = workload(Layout(cp_size=2), DEEPSEEK_V3)
    own = layer_quantities(latent)
    other = layer_quantities(replace(latent, model=usual))
    scores = 2048 * 1024 * 128
    # A fused kernel computes half of the square, forward and backward; the softmax is the same.
    assert own.attention_flops - other.attention_flops == pytest.approx(3.5 * scores * 64)
    assert own.traffic.context.link == pytest.approx(1.25 * other.traffic.context.link)


@pytest.mark.parametrize("model", [DEEPSEEK_V3, MOONLIGHT])
def test_expanding_compressed_vectors_again_takes_its_share(model: Architecture) -> None:
    again = replace(
        workload(ONE, model),
        recompute=Recompute.SELECTIVE,
        recompute_modules=frozenset([RecomputeModule.MLA_UP_PROJ]),
    )
    expected = {DEEPSEEK_V3.layers: 54.5 / 187, MOONLIGHT.layers: 8.4 / 13.8}[model.layers]
    assert recomputed(again).projections == pytest.approx(expected, rel=0.01)


def test_windows_limit_the_products_of_attention() -> None:
    assert attended_share(GPT3, 2048) == 1
    assert attended_share(GPT_OSS, 128) == 1
    pairs = sum(min(n + 1, 128) for n in range(8192)) / sum(range(1, 8193))
    assert attended_share(GPT_OSS, 8192) == pytest.approx((1 + pairs) / 2, rel=1e-3)
    every = GPT_OSS.replace(window={"tokens": 128})
    assert attended_share(every, 8192) == pytest.approx(pairs, rel=5e-3)
    full = GPT_OSS.replace(window=None)
    load = workload(ONE, GPT_OSS)
    flops = layer_quantities(load).attention_flops
    share = flops / layer_quantities(replace(load, model=full)).attention_flops
    assert share == attended_share(GPT_OSS, 2048) < 0.6
    # Without a fused kernel, all scores are computed and then masked.
    unfused = replace(load, flash_attention=False)
    masked = replace(unfused, model=full)
    assert layer_quantities(unfused).attention_flops == layer_quantities(masked).attention_flops


def test_multi_token_prediction_slows_the_last_stage() -> None:
    layout = Layout(tp_size=8, pp_size=4)
    plain = workload(layout, NEMOTRON.replace(mtp_layers=0))
    more = workload(layout, NEMOTRON)
    without, found = step_time(plain, CONSTANTS), step_time(more, CONSTANTS)
    assert found.stages[:3] == without.stages[:3]
    layer = without.stages[0] / 8
    assert found.stages[3] - without.stages[3] > 2 * layer
    assert stage_counts(more).each[-1] == (10, 0, 1 + 2 * (1 + 2 * 6144 / 51200))
    # Gradients of the copied embedding are summed with those of the first stage.
    assert quantities(more).gradients.network > quantities(plain).gradients.network


def test_layers_with_and_without_experts_alternate() -> None:
    load = workload(Layout(pp_size=4), ALTERNATING)
    assert stage_counts(load).each == ((6, 6, 0), (6, 6, 0), (6, 6, 0), (6, 6, 1))
    all_experts = replace(load, model=alternating(48, 1))
    load = replace(load, model=alternating(48, 2))
    found, more = (step_time(one, CONSTANTS).parts for one in (load, all_experts))
    assert found[TimePart.COMPUTE] != more[TimePart.COMPUTE]
    assert layer_quantities(load).dense.flops > layer_quantities(all_experts).dense.flops


def test_dense_layers_come_before_those_that_alternate() -> None:
    model = alternating(8, 2, dense_layers=3)
    load = workload(ONE, model, stages=stages_of([8], 1))
    assert model.moe is not None
    experts = [model.moe.has_experts(n) for n in range(8)]
    assert experts == [False] * 4 + [True, False, True, False]
    assert stage_counts(load).whole == (6, 2, 1)
