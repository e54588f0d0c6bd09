# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The memory model: its parts, its formulas, its verdicts."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.catalog.catalog import Catalog
from seatrial.planning.layout import Layout
from seatrial.planning.memory.activations import layer_activations
from seatrial.planning.memory.breakdown import MemoryFit, MemoryPart
from seatrial.planning.memory.constants import borrowed_error, constants
from seatrial.planning.memory.estimate import (
    deciding_stages,
    every_stage,
    in_flight,
    memory,
    most_kept,
)
from seatrial.planning.memory.states import model_counts, stage_layers, stage_parameters
from seatrial.planning.parameters import padded_vocab_size, rank_parameters
from seatrial.planning.search.pipeline_schedule import schedule
from seatrial.planning.stages import stages_of
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import Precision

A100 = Hardware("a100-80gb", 79 << 30, 312e12, 312e12, 2e12, 300e9, 8, 8, 25e9)
KORTHIKANTI = replace(
    constants("megatron-core"),
    residual_bytes=8,
    dropout_bytes=2,
    attention_bytes=2,
    score_bytes=5,
    gelu_bytes=4,
    working_layers=0,
    allocated_bytes=0,
)
"""arXiv 2205.05198, section 4, as it stands there."""

GPT = Architecture.model_validate(
    {
        "family": "gpt",
        "layers": 24,
        "hidden_size": 2048,
        "heads": 16,
        "vocab_size": 50_257,
        "max_positions": 2048,
    }
)
EXPERTS = GPT.replace(
    moe={
        "experts": 8,
        "top_k": 2,
        "expert_ffn_hidden_size": 4096,
        "shared_expert_ffn_hidden_size": 1024,
        "dense_layers": 3,
    }
)


def workload(model: Architecture = GPT, **changes: Any) -> Workload:
    """A workload; sizes of axes by name, anything else as in a workload."""
    axes = {
        name: changes.pop(name, 1)
        for name in ("tp_size", "cp_size", "dp_size", "pp_size", "vp_size", "ep_size", "etp_size")
    }
    layout = Layout(**axes)
    sizes = changes.pop("sizes", [model.layers // layout.pp_size] * layout.pp_size)
    even = stages_of(sizes, layout.vp_size)
    given: dict[str, Any] = {
        "model": model,
        "sequence_length": 2048,
        "padded_vocab_size": padded_vocab_size(model.vocab_size, layout.tp_size, 128),
        "layout": layout,
        "stages": even,
        "sequence_parallel": False,
        "sharding": Sharding.NONE,
        "recompute": Recompute.NONE,
        "micro_batch_size": 4,
        "micro_batches": 64,
        "precision": Precision.BF16,
        "hardware": A100,
        "stack": "megatron-core",
        "hidden_dropout": True,
    }
    return Workload(**(given | changes))


def kept(**changes: Any) -> float:
    """Bytes that a layer keeps by the paper's constants, over s b h."""
    load = workload(**changes)
    tokens = load.sequence_length * load.micro_batch_size
    return layer_activations(load, KORTHIKANTI).kept / (tokens * load.model.hidden_size)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_activations_are_those_of_the_paper(tp: int) -> None:
    scores = 5 * GPT.heads * 2048 / GPT.hidden_size
    plain = {"tp_size": tp, "flash_attention": False}
    # Table 2: sbh (10 + 24/t + 5 as/ht), then sbh/t (34 + 5 as/h), then 34 sbh/t.
    assert kept(**plain) == pytest.approx(10 + 24 / tp + scores / tp)
    assert kept(**plain, sequence_parallel=True) == pytest.approx((34 + scores) / tp)
    selective = kept(**plain, sequence_parallel=True, recompute=Recompute.SELECTIVE)
    assert selective == pytest.approx(34 / tp)
    assert kept(**plain, recompute=Recompute.FULL) == pytest.approx(2)


def test_flash_attention_keeps_one_number_a_row_instead_of_scores() -> None:
    assert kept(flash_attention=True) == pytest.approx(34 + 4 * GPT.heads / GPT.hidden_size)


def test_fewer_heads_for_keys_and_values_keep_less() -> None:
    grouped = GPT.replace(kv_heads=4)
    assert kept() - kept(model=grouped) == pytest.approx(2 * 2 * (1 - 4 / 16))


def test_a_longer_sequence_on_more_ranks_keeps_as_much() -> None:
    longer = layer_activations(workload(sequence_length=8192, cp_size=4), KORTHIKANTI)
    assert longer.kept == pytest.approx(layer_activations(workload(), KORTHIKANTI).kept)


def one_forward_one_backward(stages: int, stage: int, micro_batches: int) -> int:
    """The most micro-batches that a stage has gone forward with and not yet back."""
    warm_up = min(stages - stage - 1, micro_batches)
    moves = ["forward"] * warm_up
    moves += ["forward", "backward"] * (micro_batches - warm_up)
    moves += ["backward"] * warm_up
    held = most = 0
    for move in moves:
        held += 1 if move == "forward" else -1
        most = max(most, held)
    return most


@given(pp=st.sampled_from([1, 2, 3, 4, 6, 8]), batches=st.integers(1, 20))
def test_micro_batches_in_flight_are_those_of_the_schedule(pp: int, batches: int) -> None:
    load = workload(pp_size=pp, micro_batches=batches)
    for stage in range(pp):
        assert in_flight(load, stage) == one_forward_one_backward(pp, stage, batches)


@pytest.mark.parametrize(("pp", "vp"), [(2, 2), (4, 3), (4, 6), (8, 3)])
def test_chunks_keep_more_by_the_papers_factor(pp: int, vp: int) -> None:
    interleaved = workload(pp_size=pp, vp_size=vp)
    # arXiv 2205.05198: the first stage keeps 1 + (p - 1)/(p m) times as much with m chunks.
    assert in_flight(interleaved, 0) / pp == pytest.approx(1 + (pp - 1) / (pp * vp))
    few = replace(interleaved, micro_batches=pp // 2)
    assert in_flight(few, 0) == pp // 2


@settings(max_examples=40)
@given(
    pp=st.sampled_from([2, 3, 4, 8]),
    vp=st.sampled_from([2, 3, 8]),
    rounds=st.integers(1, 6),
    data=st.data(),
)
def test_chunks_that_differ_are_counted_one_by_one(
    pp: int, vp: int, rounds: int, data: st.DataObject
) -> None:
    stage = data.draw(st.integers(0, pp - 1))
    load = workload(GPT.replace(layers=pp * vp), pp_size=pp, vp_size=vp, micro_batches=pp * rounds)
    assert most_kept(load, stage, [1.0] * vp) == pytest.approx(in_flight(load, stage) * vp)
    # In the order of the schedule as it is drawn, which is made another way.
    held, most = 0.0, 0.0
    for slot in schedule((1.0,) * pp, pp * rounds, vp):
        if slot.stage == stage:
            held += (slot.chunk + 1) * (1 if slot.forward else -1)
            most = max(most, held)
    assert most_kept(load, stage, [chunk + 1.0 for chunk in range(vp)]) == pytest.approx(most)


def test_a_stage_with_the_embedding_counted_keeps_a_layer_less_of_the_first_chunk() -> None:
    layers = GPT.replace(layers=30)
    stages = stages_of([8] * 4, 4, embedding_as_layer=True, loss_as_layer=True)
    counted = workload(layers, pp_size=4, vp_size=4, stages=stages)
    whole = workload(GPT.replace(layers=32), pp_size=4, vp_size=4)
    kept_layer = layer_activations(counted, constants("megatron-core")).kept
    first, last = (
        memory(whole).stages[index].activations - memory(counted).stages[index].activations
        for index in (0, -1)
    )
    # The first chunk is full, with four micro-batches, before the peak, and not empty at it.
    assert first / kept_layer == pytest.approx(round(first / kept_layer), abs=1e-3)
    assert 4 <= first / kept_layer < 8
    assert 0 <= last / kept_layer <= 4


STATES = [
    (Sharding.NONE, 1, 18.0),
    (Sharding.NONE, 8, 18.0),
    (Sharding.OPTIMIZER, 8, 6 + 12 / 8),
    (Sharding.OPTIMIZER, 64, 6 + 12 / 64),
]


@pytest.mark.parametrize(("sharding", "dp", "per_parameter"), STATES)
def test_state_is_18_bytes_a_parameter_or_shared(
    sharding: Sharding, dp: int, per_parameter: float
) -> None:
    load = workload(sharding=sharding, dp_size=dp)
    stage = memory(load).fullest
    parameters = rank_parameters(GPT, load.padded_vocab_size, load.layout, load.stages[0])
    state = stage.weights + stage.gradients + stage.optimizer
    assert state == pytest.approx(per_parameter * parameters, rel=1e-6)


def test_fsdp_shares_everything_but_the_layers_at_work() -> None:
    load = workload(sharding=Sharding.FSDP, dp_size=64)
    stage = memory(load).fullest
    parameters = rank_parameters(GPT, load.padded_vocab_size, load.layout, load.stages[0])
    layer = model_counts(load).dense_layer
    assert stage.optimizer == pytest.approx(12 * parameters / 64, rel=1e-6)
    assert stage.weights == pytest.approx(2 * parameters / 64 + 2 * 2 * layer, rel=1e-6)
    assert stage.gradients == pytest.approx(4 * parameters / 64 + 4 * layer, rel=1e-6)


def test_single_precision_has_no_master_copy() -> None:
    stage = memory(workload(precision=Precision.FP32)).fullest
    assert stage.weights == stage.gradients
    assert stage.optimizer == 2 * stage.weights


LAYOUTS = [
    {},
    {"tp_size": 4},
    {"pp_size": 4, "tp_size": 2},
    {"pp_size": 4, "vp_size": 3},
    {"pp_size": 4, "sizes": [5, 7, 7, 5]},
    {"model": EXPERTS, "pp_size": 4, "ep_size": 4, "dp_size": 4},
    {"model": EXPERTS, "pp_size": 2, "ep_size": 8, "etp_size": 1, "dp_size": 8},
    {"model": EXPERTS, "tp_size": 2, "etp_size": 2, "dp_size": 2},
]


@pytest.mark.parametrize("changes", LAYOUTS)
def test_parameters_are_the_planners_own_count_on_every_stage(changes: dict[str, Any]) -> None:
    # That count is the engine's: tests/engine/test_contract.py compares the two.
    load = workload(**changes)
    counts = model_counts(load)
    for index, stage in enumerate(load.stages):
        layers = stage_layers(load, index)
        assert sum(layers) == len(stage.layers)
        rest, routed = stage_parameters(load, counts, layers, index)
        expected = rank_parameters(load.model, load.padded_vocab_size, load.layout, stage)
        assert rest + routed == expected
        moe = load.model.moe
        if moe is not None:
            inner = moe.expert_ffn_hidden_size
            one = 2 * load.model.hidden_size * inner + inner + load.model.hidden_size
            if load.layout.etp_size == 1:
                held = moe.experts // load.layout.ep_size
                assert routed == layers.expert * held * one


@pytest.mark.parametrize("changes", LAYOUTS)
def test_parts_add_up(changes: dict[str, Any]) -> None:
    result = every_stage(workload(**changes))
    for stage in result.stages:
        assert sum(stage.parts.values()) == stage.total
        assert set(stage.parts) == set(MemoryPart)
        assert all(amount >= 0 for amount in stage.parts.values())
        outside = stage.parts[MemoryPart.COMMUNICATION] + stage.parts[MemoryPart.FRAGMENTATION]
        assert stage.allocated == stage.total - outside
    assert [stage.index for stage in result.stages if stage.logits] == [len(result.stages) - 1]


@settings(max_examples=60)
@given(
    pp=st.sampled_from([1, 2, 4, 8]),
    tp=st.sampled_from([1, 2, 4]),
    micro=st.sampled_from([1, 2, 8]),
    batches=st.integers(1, 12),
    recompute=st.sampled_from([Recompute.NONE, Recompute.FULL]),
    experts=st.booleans(),
)
def test_the_fullest_stage_is_never_one_that_is_not_looked_at(
    pp: int, tp: int, micro: int, batches: int, recompute: Recompute, experts: bool
) -> None:
    load = workload(
        EXPERTS if experts else GPT,
        pp_size=pp,
        tp_size=tp,
        micro_batch_size=micro,
        micro_batches=batches,
        recompute=recompute,
    )
    assert memory(load).fullest == every_stage(load).fullest
    assert len(deciding_stages(load)) <= 4


def test_verdicts_follow_the_error_bar() -> None:
    load = workload()
    result = memory(load)
    need, error = result.fullest.total, result.error

    def verdict(room: float) -> MemoryFit:
        return memory(replace(load, hardware=replace(A100, memory_bytes=int(room)))).verdict

    assert verdict(need * (1 + error) + 1) is MemoryFit.FITS
    assert verdict(need * 1.001) is MemoryFit.RISKY
    assert verdict(need * 0.999) is MemoryFit.RISKY
    assert verdict(need * (1 - error) - 1) is MemoryFit.DOES_NOT_FIT
    assert result.headroom == A100.memory_bytes - need
    assert 0 < error < 0.2


@pytest.mark.parametrize(
    "smaller",
    [
        {"tp_size": 2},
        {"micro_batch_size": 2},
        {"recompute": Recompute.FULL},
        {"sharding": Sharding.OPTIMIZER, "dp_size": 8},
        {"cp_size": 2},
        {"hidden_dropout": False},
        {"gradient_bytes": 2},
    ],
)
def test_what_should_save_memory_does(smaller: dict[str, Any]) -> None:
    assert memory(workload(**smaller)).fullest.total < memory(workload()).fullest.total


def test_more_experts_to_a_token_keep_more() -> None:
    assert EXPERTS.moe is not None
    wider = EXPERTS.replace(moe=EXPERTS.moe.model_copy(update={"top_k": 4}).model_dump())
    narrow, wide = memory(workload(EXPERTS)).fullest, memory(workload(wider)).fullest
    assert wide.activations > narrow.activations
    assert wide.weights == narrow.weights


def test_every_preset_has_an_estimate(catalog: Catalog) -> None:
    for name in ("llama3-8b", "mixtral-8x7b", "gpt3-175b", "mpt-30b"):
        model = catalog.model(name).architecture
        result = memory(workload(model, tp_size=8, sharding=Sharding.OPTIMIZER, dp_size=8))
        assert result.fullest.total > 0


def test_a_stack_that_was_never_measured_has_the_engines_constants() -> None:
    assert constants("no-such-stack") == constants("megatron-core")


BORROWED = [
    ({"stack": "llm-foundry"}, "llm-foundry, estimated with the constants of megatron-core"),
    ({"sharding": Sharding.FSDP, "dp_size": 8}, "FSDP sharding and gathering"),
    ({"precision": Precision.FP32}, "activations in fp32, estimated from 16-bit runs"),
]


@pytest.mark.parametrize(("changes", "words"), BORROWED)
def test_what_was_never_fitted_has_the_error_of_what_is_borrowed(
    changes: dict[str, Any], words: str
) -> None:
    found, own = memory(workload(**changes)), memory(workload())
    assert found.untested == (words,)
    assert found.error == pytest.approx(borrowed_error())
    assert found.tested == pytest.approx(own.error)
    assert own.untested == ()
    assert own.error < borrowed_error()


def test_all_that_is_borrowed_is_named_and_narrow_copies_come_on_top() -> None:
    plain = workload(stack="llm-foundry", sharding=Sharding.FSDP, dp_size=8)
    narrow = replace(plain, precision=Precision.FP8)
    assert len(memory(plain).untested) == 2
    assert len(memory(narrow).untested) == 3
    assert memory(narrow).error > memory(plain).error == pytest.approx(borrowed_error())
