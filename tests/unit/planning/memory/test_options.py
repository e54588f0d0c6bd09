# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What performance options add to the memory of a stage."""

from dataclasses import replace

import pytest

from seatrial.planning.memory.activations import layer_activations
from seatrial.planning.memory.constants import constants
from seatrial.planning.memory.estimate import (
    GRAPH_WIDTHS,
    STEP_POOL,
    every_stage,
    host_memory,
    in_flight,
    memory,
)
from seatrial.planning.options import Options
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.performance import CudaGraphs, MomentPrecision
from tests.unit.planning.memory.test_estimate import EXPERTS, GPT, workload

FUSED = Options(fused_layers=True)
UNFUSED = Options(fused_layers=False)
KNOWN = constants("megatron-core")
LLAMA = GPT.replace(family="llama", ffn_hidden_size=8192, activation="swiglu")
GATED_EXPERTS = EXPERTS.replace(family="llama", ffn_hidden_size=8192, activation="swiglu")


def more_kept(work: Workload) -> tuple[float, float]:
    """The bytes per token that layers without and with experts store more if not fused."""
    fused = layer_activations(replace(work, options=FUSED), KNOWN)
    plain = layer_activations(replace(work, options=UNFUSED), KNOWN)
    tokens = work.micro_batch_size * work.sequence_length
    return (plain.kept - fused.kept) / tokens, (plain.kept_expert - fused.kept_expert) / tokens


def test_an_unfused_swiglu_stores_both_factors() -> None:
    # silu(gate) and up + offset, in 2 bytes each.
    assert more_kept(workload(LLAMA))[0] == pytest.approx(4 * 8192)
    assert more_kept(workload(LLAMA, tp_size=2))[0] == pytest.approx(4 * 8192 / 2)
    assert more_kept(workload(GPT)) == (0, 0)


def test_unfused_experts_also_store_what_the_router_weighs() -> None:
    routed = 2 * KNOWN.expert_imbalance * 4096
    shared = 1024
    assert more_kept(workload(GATED_EXPERTS))[1] == pytest.approx(6 * routed + 4 * shared)


def test_recomputed_activations_do_not_store_the_factors() -> None:
    again = {
        "recompute": Recompute.SELECTIVE,
        "recompute_modules": frozenset({RecomputeModule.MOE_ACT}),
    }
    assert more_kept(workload(GATED_EXPERTS, **again))[1] == pytest.approx(4 * 1024)
    again["recompute_modules"] = frozenset({RecomputeModule.MLP})
    assert more_kept(workload(LLAMA, **again))[0] == 0


def test_unfused_gradients_exist_before_they_are_added() -> None:
    fused = layer_activations(workload(LLAMA, options=FUSED), KNOWN)
    plain = layer_activations(workload(LLAMA, options=UNFUSED), KNOWN)
    factors = (plain.kept - fused.kept) * KNOWN.working_layers
    assert plain.working - fused.working - factors == pytest.approx(2 * 2048 * 2 * 8192)


def test_graphs_of_layers_have_a_pool_for_every_micro_batch_in_flight() -> None:
    work = workload(LLAMA, pp_size=4, options=FUSED)
    graphs = replace(FUSED, cuda_graphs=CudaGraphs.LAYERS)
    more = [
        after.activations - before.activations
        for before, after in zip(
            memory(work).stages, memory(replace(work, options=graphs)).stages, strict=True
        )
    ]
    width = layer_activations(work, KNOWN).width
    flying = [in_flight(work, stage.index) for stage in memory(work).stages]
    assert more == pytest.approx([GRAPH_WIDTHS * 6 * each * width for each in flying], abs=2)
    assert more[0] > more[-1]


def test_a_graph_of_the_step_has_a_pool_of_its_own() -> None:
    work = workload(LLAMA, options=FUSED)
    before = memory(work).fullest
    after = memory(replace(work, options=replace(FUSED, cuda_graphs=CudaGraphs.STEP))).fullest
    assert after.allocated == pytest.approx(before.allocated * (1 + STEP_POOL), rel=1e-6)


def test_offloaded_state_needs_16_bytes_on_the_host() -> None:
    work = workload(LLAMA, dp_size=4, pp_size=2, sharding=Sharding.OPTIMIZER)
    assert host_memory(work) == 0
    assert host_memory(replace(work, options=FUSED)) == 0
    offloaded = replace(work, options=replace(FUSED, optimizer_offload=0.5))
    on_gpu = max(stage.optimizer for stage in every_stage(replace(work, options=FUSED)).stages)
    assert host_memory(offloaded) == pytest.approx(0.5 * on_gpu * 16 / 12, rel=1e-6)
    # The host keeps fp32 moments, whatever the GPU keeps.
    halved = replace(FUSED, optimizer_offload=0.5, moments=MomentPrecision.BF16)
    assert host_memory(replace(work, options=halved)) == host_memory(offloaded)


def test_offloaded_activations_are_on_the_host() -> None:
    work = workload(LLAMA, options=replace(FUSED, activation_offload=3))
    assert host_memory(work) == pytest.approx(3 * layer_activations(work, KNOWN).kept, abs=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (UNFUSED, "layers without fused kernels"),
        (replace(FUSED, cuda_graphs=CudaGraphs.LAYERS), "the memory pools of CUDA graphs"),
    ],
)
def test_the_error_bar_covers_options_without_figures(options: Options, words: str) -> None:
    usual = memory(workload(LLAMA, options=FUSED))
    found = memory(workload(LLAMA, options=options))
    change = 1 - usual.fullest.total / found.fullest.total
    assert change > 0
    assert found.untested == (*usual.untested, words)
    assert found.assumed == pytest.approx(usual.assumed + change)
    assert usual.assumed == memory(workload(LLAMA)).assumed
