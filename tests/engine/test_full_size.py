# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine counts full-size ranks: known layouts, and fake tensors like real ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.planning.counted import Communication, Compute, Pass, RankCount, Wait
from seatrial.planning.layout import Axis
from tests.engine.full_size_layouts import (
    LAYOUTS,
    PLAIN,
    SPEC,
    KnownLayout,
    count,
    count_layout,
    planned,
    rest_of,
)
from tests.engine.test_contract import in_worker

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

SHORT = ("gpt3-175b, stage 0",)
LEFT_OVER = 16 << 10
"""Bytes of small tensors that the step before leaves behind, at most."""
SMALL = "tp_size: 2, pp_size: 2, vp_size: 1, cp_size: 1, sequence_parallel: true"


def small(performance: str = PLAIN, more: str = "recompute: none") -> str:
    """Return a spec of a small model on 8 GPUs."""
    return SPEC.format(
        model="gpt3-65m",
        batch=16,
        more="",
        parallelism=f"{SMALL}, {more}",
        nodes=1,
        performance=performance,
    )


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(known, id=known.name, marks=[] if known.name in SHORT else [pytest.mark.slow])
        for known in LAYOUTS
    ],
)
def test_known_layouts_need_the_same_bytes(known: KnownLayout, tmp_path: Path) -> None:
    counted = count_layout(known, tmp_path)
    held = counted.at_peak
    assert held.weights == known.weights
    assert held.gradients == known.gradients
    assert held.optimizer == known.optimizer
    assert abs(rest_of(counted) - known.rest) <= LEFT_OVER
    assert counted.resident < 1 << 30


@pytest.mark.parametrize("stage", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_fake_and_real_tensors_need_the_same_bytes(stage: int, tmp_path: Path) -> None:
    run = planned(small(), tmp_path)
    rank = run.plan.layout.rank({Axis.PP: stage})
    fake = count(run, rank, 4, tmp_path)
    real = count(run, rank, 4, tmp_path, "--real")
    assert fake.at_peak == real.at_peak
    assert fake.update_peak == real.update_peak
    assert fake.flops == real.flops
    assert [point.live for point in fake.timeline] == [point.live for point in real.timeline]


@pytest.fixture(scope="module")
def overlapped(tmp_path_factory: pytest.TempPathFactory) -> tuple[RankCount, RankCount]:
    """Both stages of a small run whose gradients and weights are exchanged during the passes."""
    options = PLAIN.replace("gradient_overlap: false", "gradient_overlap: true")
    options = options.replace("parameter_overlap: false", "parameter_overlap: true")
    directory = tmp_path_factory.mktemp("overlapped")
    run = planned(small(options), directory)
    layout = run.plan.layout
    first, last = (count(run, layout.rank({Axis.PP: n}), 4, directory) for n in (0, 1))
    return first, last


def test_sends_and_receives_belong_to_their_micro_batches(
    overlapped: tuple[RankCount, RankCount],
) -> None:
    first, last = overlapped
    pairs = {
        name: [
            (event.kind, event.during, event.micro_batch, event.peer)
            for event in counted.events
            if isinstance(event, Communication) and event.kind in ("send", "receive")
        ]
        for name, counted in (("first", first), ("last", last))
    }
    assert sorted(pairs["first"]) == sorted(
        [("send", Pass.FORWARD, n, last.rank) for n in range(4)]
        + [("receive", Pass.BACKWARD, n, last.rank) for n in range(4)]
    )
    assert sorted(pairs["last"]) == sorted(
        [("receive", Pass.FORWARD, n, first.rank) for n in range(4)]
        + [("send", Pass.BACKWARD, n, first.rank) for n in range(4)]
    )


def test_overlapped_communication_is_waited_for_once(
    overlapped: tuple[RankCount, RankCount],
) -> None:
    for counted in overlapped:
        step = [
            (index, event)
            for index, event in enumerate(counted.events)
            if isinstance(event, Communication) and event.during is not Pass.SETUP
        ]
        waits = [event.event for event in counted.events if isinstance(event, Wait)]
        started = [index for index, event in step if event.asynchronous]
        assert len(waits) == len(set(waits))
        assert set(waits) <= set(started)
        reduced = [event for _, event in step if event.kind == "reduce_scatter"]
        replicas = [each for each in reduced if "DATA_PARALLEL" in counted.groups[each.group].name]
        assert replicas
        assert all(each.asynchronous for each in replicas)
        assert any(each.during is Pass.BACKWARD for each in replicas)


def test_work_is_attributed_to_every_micro_batch(overlapped: tuple[RankCount, RankCount]) -> None:
    for counted in overlapped:
        found = {
            (event.during, event.micro_batch)
            for event in counted.events
            if isinstance(event, Compute) and event.flops.get("matrix_product")
        }
        assert found == {(each, n) for each in (Pass.FORWARD, Pass.BACKWARD) for n in range(4)}
        place = {counted.places[e.place] for e in counted.events if isinstance(e, Communication)}
        assert any(each.module == "decoder.layers.0.mlp.linear_fc1" for each in place)
        assert all(each.line.startswith("megatron/") for each in place)


RING = """
import json, torch, torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from seatrial.planning.counted import Communication, Pass
from seatrial.worker.megatron.full_size.counter import StepCounter
from seatrial.worker.megatron.full_size.kernels import Attention, Flash, offer_kernels
dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
counter = StepCounter()
offer_kernels(counter, next(iter(Attention)))
counter.position.begin(Pass.FORWARD, 0)
with FakeTensorMode(), counter:
    q, k, v = (
        torch.empty(8, 1, heads, 2, dtype=torch.bfloat16, requires_grad=True) for heads in (4, 2, 2)
    )
    out = Flash.apply(q, k, v, dist.group.WORLD, None)
    counter.position.begin(Pass.BACKWARD, 0)
    out.backward(torch.empty_like(out))
events = [event for event in counter.recorder.events if isinstance(event, Communication)]
print(json.dumps([[event.kind, event.during, event.size, event.peer] for event in events]))
"""


def test_keys_and_values_go_around_the_ring() -> None:
    keys_and_values = 2 * (8 * 2 * 2) * 2
    found = [tuple(each) for each in json.loads(in_worker(RING))]
    sizes = {
        (kind, during): [row[2] for row in found if row[:2] == (kind, during)]
        for kind in ("send", "receive")
        for during in ("forward", "backward")
    }
    # In backward, the gradients of keys and values follow them by one rank.
    backward = [keys_and_values * n for n in (1, 2, 2, 1)]
    for kind in ("send", "receive"):
        assert sizes[kind, "forward"] == [keys_and_values] * 3
        assert sizes[kind, "backward"] == backward
    assert {row[3] for row in found if row[0] == "send"} == {2}
    assert {row[3] for row in found if row[0] == "receive"} == {0}
    # Odd ranks receive first, so that each send has its receive.
    assert [row[0] for row in found] == ["receive", "send"] * 7


@pytest.mark.slow
def test_ranks_of_a_stage_need_the_same(tmp_path: Path) -> None:
    run = planned(small(), tmp_path)
    layout = run.plan.layout
    first = count(run, 0, 4, tmp_path)
    for axis in (Axis.TP, Axis.DP):
        other = count(run, layout.rank({axis: layout.size(axis) - 1}), 4, tmp_path)
        assert abs(other.peak - first.peak) <= 1 << 20
        sequences = [
            [
                replace(event, group=0, peer=None, place=0)
                for event in counted.events
                if isinstance(event, Communication)
            ]
            for counted in (first, other)
        ]
        assert sequences[0] == sequences[1]
