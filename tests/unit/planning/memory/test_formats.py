# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What products in 8 and 4 bits change, and how far the error bar spans it."""

from dataclasses import replace
from typing import Any

import pytest

from seatrial.planning.memory.activations import layer_activations
from seatrial.planning.memory.estimate import memory
from seatrial.planning.memory.states import model_counts
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision
from tests.unit.planning.memory.test_estimate import A100, EXPERTS, GPT, KORTHIKANTI, workload

H100 = replace(A100, accelerator="h100-80gb")
B200 = replace(A100, accelerator="b200")


def narrow(**changes: Any) -> Workload:
    """A workload in fp8 on H100, unless told otherwise."""
    given: dict[str, Any] = {"precision": Precision.FP8, "hardware": H100}
    return workload(**(given | changes))


COPIES = [
    (Precision.FP8, H100, 2.0),
    (Precision.FP8, B200, 1.0),
    (Precision.MXFP8, B200, 2 * 33 / 32),
    (Precision.NVFP4, B200, 2 * 9 / 16),
]


@pytest.mark.parametrize(("precision", "hardware", "extra"), COPIES)
def test_weights_of_layers_have_narrow_copies(
    precision: Precision, hardware: Any, extra: float
) -> None:
    load = narrow(precision=precision, hardware=hardware)
    in_layers = GPT.layers * model_counts(load).dense_layer
    plain = memory(workload(hardware=hardware)).fullest
    more = memory(load).fullest.weights - plain.weights
    assert more == pytest.approx(extra * in_layers)
    alone = memory(replace(load, narrow_weights=True)).fullest.weights
    assert plain.weights + more - alone == pytest.approx(2 * in_layers)


def test_fsdp_has_copies_of_the_gathered_layers_only() -> None:
    changes: dict[str, Any] = {"sharding": Sharding.FSDP, "dp_size": 64, "hardware": H100}
    more = memory(narrow(**changes)).fullest.weights - memory(workload(**changes)).fullest.weights
    assert more == 2 * 2 * model_counts(workload(**changes)).dense_layer


def test_inputs_of_products_are_kept_in_8_bits() -> None:
    per = 2048 * 4 * GPT.hidden_size
    wide = layer_activations(workload(hardware=H100), KORTHIKANTI)
    slim = layer_activations(narrow(), KORTHIKANTI)
    # Two norms' outputs lose a byte, so does the second product's input, four times as wide; the
    # attention's output is kept in both formats.
    assert (wide.kept - slim.kept) / per == pytest.approx(2 + 4 - 1)


def test_the_router_keeps_its_input_in_16_bits() -> None:
    per = 2048 * 4 * EXPERTS.hidden_size
    wide = layer_activations(workload(EXPERTS, hardware=H100), KORTHIKANTI)
    slim = layer_activations(narrow(model=EXPERTS), KORTHIKANTI)
    routed = 2 * KORTHIKANTI.expert_imbalance
    # Routed inputs and inner activations (twice as wide), shared ones (half), less a byte each.
    saved = 1 - 1 + routed * (1 + 2) + 0.5 - 1
    assert (wide.kept_expert - slim.kept_expert) / per == pytest.approx(saved)


def test_elements_of_fp32_are_twice_as_wide_and_masks_are_not() -> None:
    per = 2048 * 4 * GPT.hidden_size
    for recompute in Recompute:
        half = workload(recompute=recompute, hidden_dropout=False)
        single = replace(half, precision=Precision.FP32)
        sums = 0.0 if recompute is Recompute.FULL else 2048 * 4 * GPT.heads * 4
        wide, slim = layer_activations(single, KORTHIKANTI), layer_activations(half, KORTHIKANTI)
        assert wide.kept - sums == pytest.approx(2 * (slim.kept - sums))
        assert wide.width == 2 * slim.width
    masks = layer_activations(workload(precision=Precision.FP32), KORTHIKANTI)
    without = layer_activations(
        workload(precision=Precision.FP32, hidden_dropout=False), KORTHIKANTI
    )
    assert (masks.kept - without.kept) / per == pytest.approx(2)


def test_a_score_of_fp32_has_a_mask_of_one_byte() -> None:
    scores = 2048 * 4 * 2048 * GPT.heads
    plain = workload(precision=Precision.FP32, flash_attention=False)
    fused = layer_activations(replace(plain, flash_attention=True), KORTHIKANTI).kept
    sums = 2048 * 4 * GPT.heads * 4
    assert layer_activations(plain, KORTHIKANTI).kept - (fused - sums) == 9 * scores


def test_experts_and_latent_attention_are_twice_as_wide_in_fp32() -> None:
    given = workload(EXPERTS, hidden_dropout=False, flash_attention=False)
    given = replace(given, recompute=Recompute.SELECTIVE, attention_weights=1 << 24)
    again = replace(
        given,
        recompute_modules=frozenset(
            {RecomputeModule.CORE_ATTENTION, RecomputeModule.LAYERNORM, RecomputeModule.MOE_ACT}
        ),
    )
    for load in (given, again):
        wide = layer_activations(replace(load, precision=Precision.FP32), KORTHIKANTI)
        slim = layer_activations(load, KORTHIKANTI)
        assert wide.kept_expert == pytest.approx(2 * slim.kept_expert)


def test_weights_and_logits_of_fp32_are_wider_and_it_is_said_to_be_untested() -> None:
    half, single = memory(workload()), memory(workload(precision=Precision.FP32))
    assert single.fullest.weights == 2 * half.fullest.weights
    entries = 2048 * 4 * workload().padded_vocab_size
    assert single.fullest.logits - half.fullest.logits == 2 * entries
    assert single.untested == ("activations in fp32, estimated from 16-bit runs",)


@pytest.mark.parametrize("precision", [Precision.FP8, Precision.MXFP8, Precision.NVFP4])
def test_the_error_bar_spans_what_is_hardly_tested(precision: Precision) -> None:
    load = narrow(precision=precision, hardware=B200)
    wide, slim = memory(workload(hardware=B200)), memory(load)
    assert wide.untested == ()
    assert slim.untested == (f"{precision} copies of weights and inputs",)
    assert slim.tested == pytest.approx(wide.error)
    assert slim.assumed > 0 == wide.assumed
    need = slim.fullest.total
    assert need * (1 - slim.error) < wide.fullest.total < need * (1 + slim.error)


def test_mixtures_of_experts_have_an_error_bar_of_their_own() -> None:
    assert memory(workload(EXPERTS)).error > memory(workload()).error
