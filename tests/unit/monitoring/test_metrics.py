# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import math
from pathlib import Path

import pytest

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.logs.reading import read_log
from seatrial.monitoring.metrics import Metrics
from seatrial.monitoring.prediction import Compared, compare
from seatrial.monitoring.rank_times import rank_figure, sum_up
from seatrial.monitoring.series import Series
from seatrial.monitoring.utilisation import MfuBasis
from seatrial.planning.memory.breakdown import Memory, MemoryFit, StageMemory
from seatrial.planning.timing.breakdown import StepTime, TimePart

LOGS = Path(__file__).parents[2] / "data" / "logs"
BASIS = MfuBasis(2_097_152, 16, model_flops=1.0e17, peak_flops=312e12, peak_of="a100 in bf16")


def step(number: int, seconds: float, **values: object) -> Event:
    told = {"seconds": seconds, "loss": 3.0, "grad_norm": 0.5, "learning_rate": 1e-4}
    return Event(EventKind.STEP, number, 100.0 + number, told | {"skipped": 0} | values)


def test_rates_are_those_of_the_median_step_by_the_stated_basis() -> None:
    metrics = Metrics(BASIS)
    for number in range(1, 12):
        metrics.take(step(number, 50.0 if number == 5 else 40.0))
    now = metrics.snapshot()
    assert now.step_seconds == 40.0
    assert now.tokens_per_second == pytest.approx(2_097_152 / 40)
    assert now.flops_per_gpu == pytest.approx(1.0e17 / 16 / 40)
    assert now.mfu == pytest.approx(1.0e17 / 16 / 40 / 312e12)
    assert "recomputed work is not counted" in BASIS.definition


def test_without_a_plan_tokens_come_from_what_the_engine_was_told() -> None:
    metrics = Metrics()
    values = {"world_size": 8, "sequence_length": 2048, "global_batch_size": 64}
    metrics.take(Event(EventKind.START, 0, 100.0, values))
    metrics.take(step(1, 2.0, tflops_per_gpu=400.0))
    now = metrics.snapshot()
    assert now.tokens_per_second == pytest.approx(64 * 2048 / 2)
    assert (now.flops_per_gpu, now.mfu) == (4e14, None)


def test_ranks_give_skew_data_share_and_memory() -> None:
    metrics = Metrics(BASIS)
    busy = sum_up([1.0] * 15 + [1.3])
    for number in (1, 2):
        metrics.take(step(number, 2.0, parts={"data": 0.1, "compute": 1.0 + number}))
        values = {"busy": busy, "data": sum_up([0.1, 0.5]), "memory": sum_up([30e9, 31e9])}
        told = {name: figure.to_dict() for name, figure in values.items()}
        metrics.take(Event(EventKind.RANKS, number, 101.0, told))
    now = metrics.snapshot()
    assert now.skew == pytest.approx(0.3)
    assert now.busy is not None
    assert now.busy.highest[0] == (15, 1.3)
    assert now.data_share == pytest.approx(0.25)
    assert (now.memory, now.memory_rank) == (31_000_000_000, 1)
    assert now.parts == pytest.approx({"data": 0.1, "compute": 2.5})


def test_a_plain_log_gives_numbers_too() -> None:
    metrics = Metrics()
    for event in read_log((LOGS / "megatron-0.13.log").read_bytes().splitlines()):
        metrics.take(event)
    now = metrics.snapshot()
    assert (now.step, now.total_steps, now.loss) == (20, 100_000, 9.412336)
    assert now.step_seconds == pytest.approx(2.0519)
    assert now.flops_per_gpu == pytest.approx(411.6e12)
    assert now.memory == 55_712 * 2**20


def test_a_loss_that_is_no_number_is_shown_and_counted() -> None:
    metrics = Metrics()
    metrics.take(step(1, 1.0))
    metrics.take(step(2, 1.0, loss=math.nan))
    now = metrics.snapshot()
    assert now.loss is not None
    assert math.isnan(now.loss)
    assert [point.missing for point in metrics.loss.points] == [0, 1]


@pytest.mark.parametrize("length", [1, 7, 8, 9, 100, 1000])
def test_a_series_stays_small_and_loses_no_spike(length: int) -> None:
    series = Series(most=8)
    for number in range(1, length + 1):
        series.take(number, 100.0 if number == 3 else 1.0)
    points = series.points
    assert len(points) <= 8
    assert sum(point.count for point in points) == length
    assert points[-1].step == length
    assert max(point.most for point in points) == (100.0 if length >= 3 else 1.0)
    assert [p.step for p in points] == sorted({p.step for p in points})


def test_a_figure_of_ranks_survives_the_event_log_and_does_not_grow() -> None:
    few, many = sum_up([float(n) for n in range(100)]), sum_up([float(n) for n in range(16_384)])
    assert rank_figure(few.to_dict()) == few
    assert len(many.highest) == len(few.highest) == 8
    assert [rank for rank, _ in many.highest] == list(range(16_383, 16_375, -1))
    assert rank_figure({"least": "x"}) is None
    assert rank_figure([1]) is None


def test_the_plan_stands_beside_what_was_measured() -> None:
    metrics = Metrics()
    metrics.take(step(1, 44.0))
    memory = sum_up([20e9, 33e9]).to_dict()
    metrics.take(Event(EventKind.RANKS, 1, 101.0, {"memory": memory}))
    stage = StageMemory(0, 10**10, 10**10, 5 * 10**9, 4 * 10**9, 10**9, 0, 0)
    planned = Memory((stage,), stage, MemoryFit.FITS, 10**9, 0.05)
    time = StepTime({TimePart.COMPUTE: 40.0}, (1.0,), 1e17, 16, 0.15)
    found = compare(time, planned, metrics.snapshot())
    assert found.step_seconds == Compared(40.0, 0.15, 44.0)
    assert found.step_seconds.within
    assert found.step_seconds.difference == pytest.approx(0.1)
    assert found.memory == Compared(stage.total, 0.05, 33_000_000_000)
    assert not found.memory.within
