# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import time
import timeit
from dataclasses import replace

import pytest

from seatrial.planning.layout import Layout
from seatrial.planning.stages import stages_of
from seatrial.planning.timing.breakdown import StepTime, TimePart
from seatrial.planning.timing.quantities import quantities
from seatrial.planning.timing.step_time import step_time
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision
from tests.unit.planning.timing.workloads import A100, CONSTANTS, EXPERTS, workload

LAYOUT = Layout(8, 1, 8, 8)


def predict(given: Workload) -> StepTime:
    return step_time(given, CONSTANTS)


def test_the_parts_add_up_and_none_is_negative() -> None:
    time = predict(workload(LAYOUT))
    assert set(time.parts) == set(TimePart)
    assert sum(time.parts.values()) == pytest.approx(time.total)
    assert min(time.parts.values()) >= 0
    assert len(time.stages) == 8


def test_a_dense_model_on_one_gpu_communicates_nothing() -> None:
    parts = predict(workload(Layout(1, 1, 1, 1))).parts
    silent = set(TimePart) - {
        TimePart.COMPUTE,
        TimePart.ATTENTION,
        TimePart.OPTIMIZER,
        TimePart.OTHER,
    }
    assert {part: parts[part] for part in silent} == dict.fromkeys(silent, 0)


def test_the_bubble_is_that_of_the_schedule() -> None:
    plain = predict(workload(LAYOUT, micro_batches=16))
    more = predict(workload(LAYOUT, micro_batches=64))
    # Seven of eight stages wait, however many micro-batches there are.
    assert more.parts[TimePart.BUBBLE] == pytest.approx(plain.parts[TimePart.BUBBLE])
    assert plain.parts[TimePart.BUBBLE] == pytest.approx(sum(plain.stages) - max(plain.stages))


def test_chunks_shorten_the_bubble_and_add_transfers() -> None:
    plain = predict(workload(LAYOUT))
    chunked = predict(workload(replace(LAYOUT, vp_size=3)))
    assert chunked.parts[TimePart.BUBBLE] < plain.parts[TimePart.BUBBLE] / 2
    # Three times as many, and compute hides its share of them.
    shown = 3 * (1 - CONSTANTS.rates.transfer_overlap)
    assert chunked.parts[TimePart.PIPELINE_TRANSFER] == pytest.approx(
        shown * plain.parts[TimePart.PIPELINE_TRANSFER]
    )


def test_twice_the_micro_batches_are_twice_the_compute_and_nothing_of_the_rest() -> None:
    once, twice = predict(workload(LAYOUT)), predict(workload(LAYOUT, micro_batches=128))
    for part in (TimePart.COMPUTE, TimePart.ATTENTION, TimePart.TENSOR_PARALLEL):
        assert twice.parts[part] == pytest.approx(2 * once.parts[part])
    for part in (TimePart.OPTIMIZER, TimePart.DATA_PARALLEL, TimePart.BUBBLE):
        assert twice.parts[part] == pytest.approx(once.parts[part])


def test_full_recompute_costs_a_third_of_the_layers_and_half_of_their_collectives() -> None:
    none = predict(workload(LAYOUT))
    full = predict(workload(LAYOUT, recompute=Recompute.FULL))
    ratio = full.parts[TimePart.COMPUTE] / none.parts[TimePart.COMPUTE]
    # The logits, on the slowest stage, are not computed again.
    assert 1.30 < ratio < 4 / 3
    assert full.parts[TimePart.TENSOR_PARALLEL] == pytest.approx(
        1.5 * none.parts[TimePart.TENSOR_PARALLEL]
    )
    assert full.model_flops == none.model_flops


def test_selective_recompute_costs_only_attention() -> None:
    none = predict(workload(LAYOUT))
    selective = predict(workload(LAYOUT, recompute=Recompute.SELECTIVE))
    assert selective.parts[TimePart.ATTENTION] > 1.2 * none.parts[TimePart.ATTENTION]
    assert selective.parts[TimePart.COMPUTE] == pytest.approx(
        none.parts[TimePart.COMPUTE], rel=1e-3
    )


def test_recomputing_the_feed_forward_part_costs_its_products_once_more() -> None:
    none = predict(workload(LAYOUT))
    modules = frozenset([RecomputeModule.MLP])
    mlp = predict(workload(LAYOUT, recompute=Recompute.SELECTIVE, recompute_modules=modules))
    full = predict(workload(LAYOUT, recompute=Recompute.FULL))
    assert mlp.parts[TimePart.ATTENTION] == none.parts[TimePart.ATTENTION]
    assert mlp.parts[TimePart.TENSOR_PARALLEL] == none.parts[TimePart.TENSOR_PARALLEL]
    extra, whole = (
        one.parts[TimePart.COMPUTE] - none.parts[TimePart.COMPUTE] for one in (mlp, full)
    )
    # Two thirds of a layer's products are the feed-forward part's.
    assert 0.6 < extra / whole < 0.7
    assert mlp.model_flops == none.model_flops


def test_recomputing_experts_takes_tokens_there_and_back_again() -> None:
    layout = Layout(1, 1, 8, 1, ep_size=8)
    none = predict(workload(layout, EXPERTS))
    modules = frozenset([RecomputeModule.MOE])
    moe = predict(
        workload(layout, EXPERTS, recompute=Recompute.SELECTIVE, recompute_modules=modules)
    )
    assert moe.parts[TimePart.EXPERT_PARALLEL] == pytest.approx(
        1.5 * none.parts[TimePart.EXPERT_PARALLEL]
    )
    assert moe.parts[TimePart.COMPUTE] > 1.2 * none.parts[TimePart.COMPUTE]


def test_the_last_stage_is_slowest_because_of_the_logits() -> None:
    time = predict(workload(LAYOUT))
    assert max(time.stages) == time.stages[-1] > time.stages[0]


def test_an_uneven_pipeline_goes_at_the_pace_of_its_fullest_stage() -> None:
    even = predict(workload(LAYOUT))
    sizes = [11, 13, *[12] * 6]
    uneven = predict(workload(LAYOUT, stages=stages_of(sizes, 1)))
    assert uneven.stages.index(max(uneven.stages)) == 1
    assert uneven.total > 1.05 * even.total


def test_tensor_parallelism_across_nodes_is_much_slower_than_inside() -> None:
    inside = predict(workload(Layout(8, 1, 8, 8)))
    across = predict(workload(Layout(16, 1, 4, 8), micro_batches=128))
    slower = across.parts[TimePart.TENSOR_PARALLEL] / inside.parts[TimePart.TENSOR_PARALLEL]
    assert slower > 3


def test_a_faster_network_shortens_only_what_crosses_it() -> None:
    slow, fast = (
        predict(workload(LAYOUT, hardware=replace(A100, network_bandwidth=rate)))
        for rate in (12.5e9, 50e9)
    )
    assert fast.parts[TimePart.DATA_PARALLEL] < slow.parts[TimePart.DATA_PARALLEL] / 2
    assert fast.parts[TimePart.TENSOR_PARALLEL] == slow.parts[TimePart.TENSOR_PARALLEL]


def test_fully_sharded_copies_wait_only_where_the_network_is_too_slow() -> None:
    layout = Layout(1, 1, 64, 1)
    quick, slow = (
        predict(
            workload(
                layout,
                sharding=Sharding.FSDP,
                micro_batch_size=8,
                micro_batches=1,
                hardware=replace(A100, network_bandwidth=rate),
            )
        )
        for rate in (50e9, 1e9)
    )
    assert quick.parts[TimePart.DATA_PARALLEL] < 0.02 * quick.total
    assert slow.parts[TimePart.DATA_PARALLEL] > 0.3 * slow.total


def test_experts_cost_exchanges_and_more_tokens_an_expert_pay_off() -> None:
    spread_out = predict(workload(Layout(1, 1, 8, 1, ep_size=8), EXPERTS))
    assert spread_out.parts[TimePart.EXPERT_PARALLEL] > 0
    alone = predict(workload(Layout(1, 1, 8, 1), EXPERTS))
    assert alone.parts[TimePart.EXPERT_PARALLEL] == 0
    # With eight times the tokens for each of its experts a rank computes at a better rate.
    assert spread_out.parts[TimePart.COMPUTE] < alone.parts[TimePart.COMPUTE]


def test_model_flops_are_six_for_each_weight_and_token() -> None:
    given = workload(LAYOUT)
    weights = 96 * 12 * 12288**2 + 51200 * 12288
    attention = 96 * 2 * 2048 * 12288 / 2
    assert predict(given).model_flops == pytest.approx(
        6 * given.tokens_per_step * (weights + attention), rel=1e-6
    )


def test_a_step_is_priced_quickly_enough_for_a_search() -> None:
    given = workload(LAYOUT)
    step_time(given, CONSTANTS)
    seconds = timeit.repeat(
        lambda: step_time(given, CONSTANTS), timer=time.process_time, number=100, repeat=3
    )
    # About 50 microseconds of an idle CPU; the bound is for one that is slow and busy.
    assert min(seconds) / 100 < 1e-3


def test_calibration_scales_everything() -> None:
    plain = predict(workload(LAYOUT))
    scaled = step_time(workload(LAYOUT), replace(CONSTANTS, scale=1.1))
    assert scaled.total == pytest.approx(1.1 * plain.total)
    assert scaled.stages[0] == pytest.approx(1.1 * plain.stages[0])


def test_fp32_moves_elements_twice_as_wide() -> None:
    given = workload(Layout(8, 2, 4, 4, ep_size=4), EXPERTS, flash_attention=False)
    half, single = quantities(given), quantities(replace(given, precision=Precision.FP32))
    for name in ("element_bytes", "score_bytes", "elementwise_bytes", "moe_bytes", "routed_bytes"):
        assert getattr(single.layer, name) == 2 * getattr(half.layer, name), name
    for name in ("tensor", "context", "exchange"):
        wide, slim = getattr(single.layer.traffic, name), getattr(half.layer.traffic, name)
        assert wide.link + wide.network == 2 * (slim.link + slim.network) > 0, name
    assert single.pipeline.transfer.network == 2 * half.pipeline.transfer.network > 0
    assert single.weights.network == 2 * half.weights.network > 0
    # Gradients are summed in fp32 either way.
    assert single.gradients == half.gradients


def test_fp32_multiplies_everything_at_its_own_rate() -> None:
    hardware = replace(A100, peak_flops=19.5e12)
    given = workload(Layout(1, 1, 8, 1), hardware=hardware, precision=Precision.FP32)
    assert quantities(given).layer.peak_attention == 19.5e12
    assert quantities(replace(given, precision=Precision.FP8)).layer.peak_attention == 312e12
