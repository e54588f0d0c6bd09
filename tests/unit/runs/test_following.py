# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for a run while its API server is away."""

import threading
import time

import pytest

from seatrial.cluster.errors import UnreachableError, unreachable
from seatrial.errors import FindingsError
from seatrial.runs.status.status import Status, no_run
from seatrial.runs.status.wait import wait
from tests.unit.cluster.fake_api import FakeTime


def state(name: str) -> Status:
    return Status("slim-7b", "here", name, 1, "", "", 1, 1, 0, (), ())


class Scripted:
    """Answers as it is told, one after the other; the last again and again."""

    def __init__(self, *script: Status | Exception) -> None:
        self.script = list(script)

    def __call__(self) -> Status:
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return step


AWAY = unreachable("https://cluster.example", "refused", 180)


@pytest.mark.parametrize("limit", [None, 600.0])
def test_a_server_that_is_away_is_asked_again(limit: float | None) -> None:
    clock, told = FakeTime(), list[str]()
    look = Scripted(AWAY, state("running"), AWAY, AWAY, state("succeeded"))
    found = wait(look, limit, sleep=clock.sleep, clock=clock.clock, tell=told.append)
    assert found.succeeded
    assert len(told) == 3
    assert "did not respond" in told[0]


def test_the_last_status_stands_when_time_is_up_in_an_outage() -> None:
    clock = FakeTime()
    found = wait(Scripted(state("running"), AWAY), 20, sleep=clock.sleep, clock=clock.clock)
    assert found.state == "running"
    assert clock.now == pytest.approx(20, abs=0.1)


def test_a_server_that_never_answered_is_the_error_when_time_is_up() -> None:
    clock = FakeTime()
    with pytest.raises(UnreachableError, match="refused"):
        wait(Scripted(AWAY), 20, sleep=clock.sleep, clock=clock.clock)
    assert clock.now == pytest.approx(20, abs=0.1)


def test_a_look_that_hangs_ends_with_the_limit() -> None:
    release = threading.Event()
    first = iter([True])

    def hanging() -> Status:
        if not next(first, False):
            release.wait(60)
        return state("running")

    began = time.monotonic()
    found = wait(hanging, 1.0, sleep=lambda _: time.sleep(0.01))
    release.set()
    assert found.state == "running"
    assert time.monotonic() - began < 20


def test_what_is_no_outage_ends_the_waiting() -> None:
    with pytest.raises(FindingsError, match="no run"):
        wait(Scripted(FindingsError([no_run("default", "slim-7b")])), 600)
    with pytest.raises(ZeroDivisionError):
        wait(Scripted(ZeroDivisionError()), 600)
