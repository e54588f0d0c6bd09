# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Each detector finds its trouble within the steps that it states, once, and sees its end."""

import math
import random
from typing import Any

import pytest

from seatrial.codes.anomalies import AnomalyCode
from seatrial.monitoring.anomalies.detector import Expectations, NetworkTransport
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.monitoring.event_log import Event, EventKind
from tests.unit.monitoring.anomalies.made_up import Change, began, ended, notices, run

AT = 300


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [1, 10])
def test_a_healthy_run_is_left_alone(seed: int, every: int) -> None:
    assert notices(run(1000, seed=seed, every=every)) == []


def test_ten_thousand_steps_of_a_noisy_host_are_left_alone() -> None:
    """Noise of 15 % on every rank, 2 % of all five times as long, losses that vary by 3 %."""
    draw = random.Random(5)  # noqa: S311  (noise, not a secret)

    def hiccups(step: int, told: dict[str, Any]) -> None:
        told["loss"] *= draw.gauss(1, 0.03)
        told["grad_norm"] *= draw.lognormvariate(0, 0.3)
        told["seconds"] *= 5 if draw.random() < 0.02 else 1
        told["busy"] = [b * (5 if draw.random() < 0.02 else 1) for b in told["busy"]]

    assert notices(run(10_000, hiccups, seed=9, noise=0.15)) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_no_number_is_named_in_its_own_step(name: str, value: float) -> None:
    def broken(step: int, told: dict[str, Any]) -> None:
        if AT <= step < AT + 5:
            told[name] = value

    found = notices(run(AT + 40, broken))
    assert began(found) == [(AnomalyCode.NOT_A_NUMBER, AT)]
    assert ended(found) == [(AnomalyCode.NOT_A_NUMBER, AT + 5)]


def test_a_search_for_the_loss_scale_is_no_trouble() -> None:
    def searching(step: int, told: dict[str, Any]) -> None:
        if step <= 32:
            told |= {"skipped": True, "grad_norm": math.inf}

    assert notices(run(100, searching)) == []


def test_a_scale_that_is_never_found_is() -> None:
    def searching(step: int, told: dict[str, Any]) -> None:
        told |= {"skipped": True, "grad_norm": math.inf}

    assert began(notices(run(100, searching))) == [(AnomalyCode.NOT_A_NUMBER, 33)]


@pytest.mark.parametrize("code", [16, 17])
def test_an_engine_that_refuses_a_result_is_understood(code: int) -> None:
    events = [*run(50), Event(EventKind.EXIT, 50, 60.0, {"code": code})]
    (notice,) = notices(events)
    assert notice.finding.code == AnomalyCode.NOT_A_NUMBER
    assert "step 51" in notice.finding.rule


def test_the_engines_words_name_the_rank() -> None:
    keeper = AnomalyMonitor()
    line = (
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #61 "
        "invocation #0 (message='the loss of a micro-batch is not a number')"
    )
    (notice,) = keeper.observe_line(line)
    assert notice.finding.rule == "Rank 3 got nan at step 61."
    assert keeper.observe_line(line) == ()


@pytest.mark.parametrize("factor", [1.3, 1.6, 3.0])
def test_a_spike_is_named_within_three_steps(factor: float) -> None:
    def spiking(step: int, told: dict[str, Any]) -> None:
        if AT <= step < AT + 20:
            told["loss"] *= factor

    found = notices(run(AT + 100, spiking))
    ((code, step),) = began(found)
    assert code is AnomalyCode.LOSS_SPIKE
    assert AT <= step < AT + 3
    assert len(ended(found)) == 1


def test_one_strange_batch_is_no_spike() -> None:
    def strange(step: int, told: dict[str, Any]) -> None:
        if step == AT:
            told["loss"] *= 1.5

    assert notices(run(AT + 50, strange)) == []


def test_a_loss_that_doubles_for_one_step_is() -> None:
    def doubling(step: int, told: dict[str, Any]) -> None:
        if step == AT:
            told["loss"] *= 2.5

    assert began(notices(run(AT + 50, doubling))) == [(AnomalyCode.LOSS_SPIKE, AT)]


def test_a_loss_that_stays_up_is_told_once() -> None:
    def staying(step: int, told: dict[str, Any]) -> None:
        if step >= AT:
            told["loss"] += 3

    assert len(began(notices(run(AT + 1000, staying)))) == 1


def test_an_explosion_is_named_within_three_steps() -> None:
    def exploding(step: int, told: dict[str, Any]) -> None:
        if AT <= step < AT + 5:
            told["grad_norm"] *= 40

    ((code, step),) = began(notices(run(AT + 50, exploding)))
    assert code is AnomalyCode.GRADIENT_EXPLOSION
    assert AT <= step < AT + 3


def test_a_norm_below_that_of_clipping_does_no_harm() -> None:
    def small(step: int, told: dict[str, Any]) -> None:
        told["grad_norm"] = 0.5 if step in (AT, AT + 1) else 0.01

    assert notices(run(AT + 50, small)) == []


def slow_rank(rank: int, share: float, until: int = 10**9) -> Change:
    def slow(step: int, told: dict[str, Any]) -> None:
        if AT < step <= until:
            told["busy"][rank] *= 1 + share

    return slow


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_rank_is_named_within_twenty_steps(seed: int) -> None:
    found = notices(run(AT + 40, slow_rank(seed % 8, 0.3), seed))
    ((code, step),) = began(found)
    assert code is AnomalyCode.STRAGGLER
    assert found[0].about == f"rank {seed % 8}"
    assert AT < step <= AT + 20


def test_a_slow_rank_is_named_by_two_reports_of_ten_steps() -> None:
    ((_, step),) = began(notices(run(AT + 40, slow_rank(2, 0.3), every=10)))
    assert step == AT + 20


def test_a_rank_that_recovers_is_told() -> None:
    found = notices(run(AT + 100, slow_rank(2, 0.5, AT + 30)))
    ((code, step),) = ended(found)
    assert code is AnomalyCode.STRAGGLER
    assert AT + 30 < step <= AT + 50


def test_reports_without_a_lag_between_do_not_shorten_the_look() -> None:
    def silent(event: Event) -> Event:
        if event.kind is EventKind.RANKS and event.step % 8:
            values = {name: event.values[name] for name in ("busy", "data")}
            return Event(event.kind, event.step, event.time, values)
        return event

    def slow_for_a_while(step: int, told: dict[str, Any]) -> None:
        if AT < step <= AT + 40:
            told["busy"][3] *= 1.5

    assert notices(map(silent, run(AT + 100, slow_for_a_while))) == []


def test_ranks_that_are_slow_by_turns_are_noise() -> None:
    def turns(step: int, told: dict[str, Any]) -> None:
        told["busy"][step % 8] *= 1.5

    assert notices(run(AT, turns)) == []


def test_steps_that_become_slower_are_told() -> None:
    def slower(step: int, told: dict[str, Any]) -> None:
        if AT < step <= AT + 60:
            told["seconds"] *= 1.4

    found = notices(run(AT + 200, slower))
    ((code, step),) = began(found)
    assert code is AnomalyCode.THROUGHPUT_DROP
    assert AT < step <= AT + 20
    assert len(ended(found)) == 1


def test_time_that_the_host_took_is_not_held_against_a_rehearsal() -> None:
    def busy_host(event: Event) -> Event:
        if event.kind is EventKind.STEP and event.step > AT:
            return Event(event.kind, event.step, event.time, event.values | {"seconds": 3.0})
        if event.kind is EventKind.RANKS:
            return Event(
                event.kind, event.step, event.time, event.values | {"pace": event.values["busy"]}
            )
        return event

    assert notices(map(busy_host, run(AT + 100))) == []


def test_nothing_is_told_of_steps_on_a_host_that_has_no_time_for_them() -> None:
    def starving(event: Event) -> Event:
        if event.step <= AT:
            return event
        if event.kind is EventKind.STEP:
            return Event(event.kind, event.step, event.time, event.values | {"seconds": 9.0})
        starved = {"least": 8.0, "median": 8.0, "most": 8.0, "highest": []}
        values = {name: event.values[name] for name in ("busy", "data")} | {"starved": starved}
        return Event(event.kind, event.step, event.time, values)

    assert notices(map(starving, run(AT + 200))) == []


def test_a_run_that_varies_by_nature_is_left_alone() -> None:
    def varying(step: int, told: dict[str, Any]) -> None:
        told["seconds"] *= 1.6 if step % 3 else 1.0

    assert notices(run(1000, varying)) == []


def test_waiting_for_data_is_named_with_the_rank() -> None:
    def slow_disk(step: int, told: dict[str, Any]) -> None:
        if AT < step <= AT + 60:
            told["data"][5] = 0.4

    found = notices(run(AT + 120, slow_disk))
    ((code, step),) = began(found)
    assert code is AnomalyCode.SLOW_DATA
    assert AT < step <= AT + 20
    assert "Rank 5" in found[0].finding.rule


def saves(seconds: list[float]) -> list[Event]:
    return [
        Event(EventKind.SAVE, 100 * number, 100.0 * number, {"seconds": taken})
        for number, taken in enumerate(seconds, 1)
    ]


def test_saves_slower_than_planned_are_told_by_the_second() -> None:
    found = notices(saves([20, 22, 50, 21, 60, 55, 70, 20]), Expectations(save_seconds=20))
    assert began(found) == [(AnomalyCode.SLOW_SAVE, 600)]
    assert ended(found) == [(AnomalyCode.SLOW_SAVE, 800)]


def test_small_saves_may_take_the_seconds_that_no_plan_counts() -> None:
    assert notices(saves([5, 6, 5, 6]), Expectations(save_seconds=0.5)) == []


def test_without_a_plan_saves_are_compared_with_each_other() -> None:
    assert began(notices(saves([20, 22, 18, 40, 70, 80]))) == [(AnomalyCode.SLOW_SAVE, 600)]
    assert notices(saves([0.1, 0.1, 0.1, 1.5, 1.5, 1.5])) == []


SOCKET = "node-1:77:142 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0"


@pytest.mark.parametrize("line", [SOCKET, "h:1:2 [0] NCCL INFO Using network Socket"])
def test_sockets_where_efa_was_planned_are_told_once(line: str) -> None:
    keeper = AnomalyMonitor(Expectations(transport=NetworkTransport.OFI))
    (notice,) = keeper.observe_line(line)
    assert notice.finding.code == AnomalyCode.NETWORK_FALLBACK
    assert keeper.observe_line(line) == ()


@pytest.mark.parametrize(
    ("line", "planned"),
    [
        (SOCKET, NetworkTransport.SOCKET),
        (SOCKET, None),
        (
            "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via NET/OFI/0/GDRDMA",
            NetworkTransport.OFI,
        ),
        ("h:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0> Socket", NetworkTransport.OFI),
    ],
)
def test_what_was_planned_is_no_fallback(line: str, planned: NetworkTransport | None) -> None:
    assert AnomalyMonitor(Expectations(transport=planned)).observe_line(line) == ()
