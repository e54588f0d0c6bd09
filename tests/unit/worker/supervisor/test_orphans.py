# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which processes are ended because their rank is gone, told by real ones."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from seatrial.monitoring.processes import begun, state
from seatrial.worker.supervisor.heartbeats import Beat, RankPhase
from seatrial.worker.supervisor.supervise import RESTART_COUNT, Orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

BEAT = Beat(0, 1, 0, RankPhase.STEPS, 0, 0, 0.0, 0.0)
OF_A_RANK = {"RANK": "1", RESTART_COUNT: "0"}
Process = subprocess.Popen[bytes]


@pytest.fixture
def children() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def child(children: list[Process], **told: str) -> Process:
    """A process of this one, which begins later than all before."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_A_RANK}
    if children:
        before = begun(children[-1].pid)
        # The kernel counts in hundredths of a second.
        while time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") < before + 2:
            time.sleep(0.005)
    children.append(subprocess.Popen(["sleep", "100"], env=environment | told))
    return children[-1]


def look(rank: Process | None) -> None:
    beats = [replace(BEAT, process=rank.pid)] if rank else []
    Orphans(agent=0).end_those_without(beats, {beat.process for beat in beats})


def test_what_began_before_the_present_rank_is_of_one_that_is_gone(
    children: list[Process],
) -> None:
    orphan = child(children, **OF_A_RANK)
    rank = child(children)
    helper = child(children, **OF_A_RANK)
    look(rank)
    assert orphan.wait(timeout=10) < 0
    assert state(helper.pid)


def test_without_a_rank_all_that_it_started_goes(children: list[Process]) -> None:
    helper, foreign = child(children, **OF_A_RANK), child(children, RANK="1")
    look(None)
    assert helper.wait(timeout=10) < 0
    # The operator calls the number of a node RANK, and the supervisor starts processes too.
    assert state(foreign.pid)
