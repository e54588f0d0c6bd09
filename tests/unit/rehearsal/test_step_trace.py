# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The time of a step follows from its events: schedules, waits, overlap and the critical path."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.engine import TrafficKind
from seatrial.planning.counted import Communication, Compute, Event, Pass, RankCount
from seatrial.planning.layout import Axis, Layout
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.candidates import Priced
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.constants import constants_for
from seatrial.planning.timing.option_effects import with_options
from seatrial.planning.timing.quantities import quantities
from seatrial.planning.timing.step_time import StepTimer, transfer_time
from seatrial.rehearsal.operation_costs import OperationCosts
from seatrial.rehearsal.step_trace import DeadlockError, StepTrace, step_trace
from seatrial.rehearsal.streams import Execution, Pairing
from seatrial.reports.step_picture import chrome_trace, memory_picture, step_page, step_picture
from tests.conftest import MEGATRON, loaded
from tests.unit.rehearsal.counted_steps import Step, record


def stages(step: Step) -> list[RankCount]:
    layout = step.layout
    ranks = [layout.rank({Axis.PP: stage}) for stage in range(layout.pp_size)]
    return [record(step, rank) for rank in ranks]


def compute_only(_: RankCount, event: Compute | Communication) -> float:
    """One second for the forward pass of a layer of two, and two for its backward pass."""
    if isinstance(event, Communication) or event.during is Pass.UPDATE:
        return 0.0
    return event.flops["matrix_product"] / 360_000


def seconds(step: Step) -> float:
    found = stages(step)
    return Execution(Pairing(found, lambda rank: rank), compute_only).seconds


@pytest.mark.parametrize(("pp_size", "batches"), [(1, 3), (2, 2), (4, 4), (4, 9), (8, 16)])
def test_one_forward_one_backward_takes_its_closed_form(pp_size: int, batches: int) -> None:
    step = Step(Layout(pp_size=pp_size), micro_batches=batches)
    assert seconds(step) == pytest.approx((batches + pp_size - 1) * 3)


@pytest.mark.parametrize(("pp_size", "chunks"), [(3, 2), (4, 2), (4, 3)])
def test_interleaving_divides_the_bubble(pp_size: int, chunks: int) -> None:
    batches = 3 * pp_size
    step = Step(Layout(pp_size=pp_size, vp_size=chunks), micro_batches=batches)
    # Chunks have two layers each, so a stage has `chunks` times the work.
    assert seconds(step) == pytest.approx(3 * chunks * (batches + (pp_size - 1) / chunks), rel=0.03)


def test_a_slow_stage_sets_the_pace() -> None:
    step = Step(Layout(pp_size=4), micro_batches=12, layers=(2, 4, 2, 2))
    more = replace(step, micro_batches=20)
    assert seconds(more) - seconds(step) == pytest.approx(8 * 6)


def test_asynchronous_reductions_hide_behind_the_backward_pass() -> None:
    def cost(count: RankCount, event: Compute | Communication) -> float:
        if isinstance(event, Communication) and event.kind == "reduce_scatter":
            return 0.5
        return compute_only(count, event)

    def took(*, overlapped: bool) -> float:
        step = Step(Layout(dp_size=2), micro_batches=2, overlapped=overlapped)
        return Execution(Pairing([record(step, 0)], lambda rank: 0), cost).seconds

    assert took(overlapped=False) == pytest.approx(6.5)  # one reduction after both passes
    assert took(overlapped=True) == pytest.approx(6.5)  # two: the first is hidden, the last not


@pytest.fixture(scope="module")
def priced() -> Priced:
    """GPT-3 7.5B, tp 2 · pp 4 on two nodes."""
    spec = loaded("parallelism.tp_size=2", "parallelism.pp_size=4", "training.micro_batch_size=2")
    chosen = plan_run(resolve_basis(spec, Catalog())).chosen
    assert chosen is not None
    return chosen


def traced(priced: Priced, **changes: int) -> tuple[list[RankCount], StepTrace]:
    workload = priced.workload
    step = Step(workload.layout, micro_batches=changes.pop("executed", 8), tied=True)
    records = [scaled(one) for one in stages(step)]
    constants = constants_for(workload.hardware.accelerator, workload.precision, workload.stack)
    return records, step_trace(records, workload, constants, MEGATRON.group_kinds)


def scaled(count: RankCount) -> RankCount:
    """Return a record with the work and the traffic of a real model."""

    def larger(event: Event) -> Event:
        if isinstance(event, Communication) and event.during is not Pass.SETUP:
            return replace(event, size=event.size * 10_000)
        if isinstance(event, Compute):
            flops = {kind: number * 20_000_000 for kind, number in event.flops.items()}
            return replace(event, flops=flops, moved=event.moved * 1_000_000)
        return event

    return replace(count, events=tuple(map(larger, count.events)))


def test_the_parts_of_each_stage_add_up(priced: Priced) -> None:
    _, trace = traced(priced)
    assert [stage.stage for stage in trace.stages] == [0, 1, 2, 3]
    for stage in trace.stages:
        total = stage.computing + stage.bubble + sum(stage.exposed.values())
        assert total == pytest.approx(trace.executed)
        assert stage.exposed[TrafficKind.TENSOR] > 0
        assert stage.bubble > 0
    # All stages compute equally long, and the last one waits least in the passes.
    assert sum(part.seconds for part in trace.path) == pytest.approx(trace.executed)
    assert trace.path[0].traffic is None
    assert {part.stage for part in trace.path} == {0, 1, 2, 3}


def test_micro_batches_that_were_not_executed_take_the_steady_period(priced: Priced) -> None:
    _, short = traced(priced, executed=8)
    _, long = traced(priced, executed=16)
    assert short.of_micro_batches == priced.workload.micro_batches > 16
    assert short.seconds == pytest.approx(long.seconds, rel=0.02)
    assert short.overhead == pytest.approx(priced.time.parts[TimePart.OTHER])


def test_sentences_name_the_waits(priced: Priced) -> None:
    _, trace = traced(priced)
    said = " ".join(trace.sentences())
    assert "of the critical path is computation." in said
    assert "ms for tensor-parallel collectives." in said
    assert "is idle longest: it waits" in said


def test_products_take_the_planners_time(priced: Priced) -> None:
    workload = priced.workload
    records = stages(Step(workload.layout))
    constants = constants_for(workload.hardware.accelerator, workload.precision, workload.stack)
    costs = OperationCosts(workload, constants, records, MEGATRON.group_kinds)
    middle, last = records[1], records[3]
    event = next(e for e in middle.events if isinstance(e, Compute))
    doubled = replace(event, flops={kind: 2 * n for kind, n in event.flops.items()})
    assert costs.seconds(middle, doubled) == pytest.approx(2 * costs.seconds(middle, event))
    # The last stage also computes the logits, whose operations take a different time.
    products = replace(event, flops={"matrix_product": 1000})
    assert costs.seconds(last, products) != costs.seconds(middle, products)
    assert costs.planned.total == pytest.approx(priced.time.total)


def test_traffic_takes_the_planners_time(priced: Priced) -> None:
    workload = priced.workload
    records = stages(Step(workload.layout))
    constants = constants_for(workload.hardware.accelerator, workload.precision, workload.stack)
    costs = OperationCosts(workload, constants, records, MEGATRON.group_kinds)
    timer = StepTimer(workload.model, workload.hardware, constants)
    rates = with_options(constants.rates_for(workload), workload)
    tokens = workload.micro_batch_size * workload.sequence_length
    message = 2 * tokens * workload.model.hidden_size
    sent = {
        event.kind: replace(event, size=message)
        for event in records[0].events
        if isinstance(event, Communication) and event.during is Pass.FORWARD
    }
    # A layer has four all-reduces, each of which is a gather and a scatter.
    layer = timer.layer_times(workload, rates).times.dense
    gather = costs.seconds(records[0], sent["all_gather"])
    scatter = costs.seconds(records[0], sent["reduce_scatter"])
    assert 4 * (gather + scatter) == pytest.approx(layer.tensor)
    # The planner divides what stages send by the tensor-parallel size.
    stage = next(e for e in records[0].events if isinstance(e, Communication) and e.peer)
    there = replace(stage, size=message // workload.layout.tp_size)
    both = 2 * costs.seconds(records[0], there)
    assert both == pytest.approx(transfer_time(quantities(workload).pipeline, rates))
    assert costs.seconds(records[0], replace(there, during=Pass.SETUP)) == 0


def test_a_deadlock_has_no_time(priced: Priced) -> None:
    workload = priced.workload
    records = stages(Step(workload.layout))
    first = [
        event
        for event in records[0].events
        if not (isinstance(event, Communication) and event.kind == "send")
    ]
    broken = replace(
        records[0], events=tuple(event for event in first if type(event).__name__ != "Wait")
    )
    constants = constants_for(workload.hardware.accelerator, workload.precision, workload.stack)
    with pytest.raises(DeadlockError, match=r"stages 0, 1, 2, 3 wait for each other"):
        step_trace([broken, *records[1:]], workload, constants, MEGATRON.group_kinds)


def test_every_stage_is_needed(priced: Priced) -> None:
    workload = priced.workload
    constants = constants_for(workload.hardware.accelerator, workload.precision, workload.stack)
    records = stages(Step(workload.layout))
    with pytest.raises(ValueError, match=r"records of stages \[0, 1, 3\], not of one rank in each"):
        step_trace([*records[:2], records[3]], workload, constants, MEGATRON.group_kinds)


def test_the_trace_opens_in_perfetto(priced: Priced) -> None:
    _, trace = traced(priced)
    data = json.loads(json.dumps(chrome_trace(trace)))
    events = data["traceEvents"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert names == {"stage 0", "stage 1", "stage 2", "stage 3"}
    spans = [event for event in events if event["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in spans) == pytest.approx(trace.executed * 1e6)
    sent = next(event for event in spans if event["name"] == "send")
    assert sent["args"]["bytes"] == 24_000_000
    assert sent["args"]["line"].startswith("megatron/core/pipeline_parallel")
    # A stream does one thing at a time.
    for stream in {(event["pid"], event["tid"]) for event in spans}:
        own = sorted((e["ts"], e["dur"]) for e in spans if (e["pid"], e["tid"]) == stream)
        if stream[1] == 0:
            for (begin, length), (following, _) in pairwise(own):
                assert begin + length <= following + 1e-3


def test_pictures_show_streams_and_micro_batches_in_flight(priced: Priced) -> None:
    records, trace = traced(priced)
    picture = step_picture(trace)
    assert picture.count("<text") > 20
    assert "forward of micro-batch 3" in picture
    assert "    tp" in picture
    memory = memory_picture(records, trace, limit=2000)
    assert memory.count('class="live"') == 5  # four stages and the legend
    assert "stage 0: at most" in memory
    assert "4 micro-batches in flight" in memory
    assert "1 micro-batch in flight" in memory
    assert memory_picture(records).count('class="flight"') == 5
    page = step_page("slim-7b", trace, records)
    assert page.startswith("<!doctype html>")
    assert "8 of " in page
