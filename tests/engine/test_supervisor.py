# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The real engine under the supervisor: killed, stopped, asked to end, with slow saves."""

import os
import signal
import time
from pathlib import Path

import pytest

from seatrial.checkpoints.inventory import newest_step
from seatrial.checkpoints.starts import claim
from seatrial.checkpoints.stopping import StopCode
from seatrial.codes.supervisor import SupervisorCode
from seatrial.engine_process.process import differing_tensors
from seatrial.monitoring.event_log import EventKind
from seatrial.monitoring.processes import state
from seatrial.storage.location import LocalPlace
from seatrial.worker.process import UNFINISHED
from tests.conftest import MEGATRON
from tests.engine.conftest import Figure
from tests.engine.supervised import MODEL, SAVE_EVERY, Supervised, differing, undisturbed

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2700)]

STEPS = 60


@pytest.mark.slow
def test_killed_ranks_agents_and_stopped_ranks_leave_no_trace(
    tmp_path: Path, figure: Figure
) -> None:
    model = {**MODEL, "train-iters": STEPS}
    saved, straight = undisturbed(tmp_path / "straight", model)
    run = Supervised(tmp_path / "run", model)
    try:
        # A rank.
        first = run.trains_from(SAVE_EVERY + 3)
        os.kill(first[1].process, signal.SIGKILL)
        run.trains_from(SAVE_EVERY + 1, restart=1)
        # The agent: what it leaves must not write where the next ranks do.
        run.trains_from(2 * SAVE_EVERY + 3)
        left = run.others()
        assert len(left) >= 2
        os.kill(run.agent(), signal.SIGKILL)
        gone = run.until(lambda: not any(map(state, left)))
        # A rank that is stopped, once enough steps were seen to know what is usual.
        third = run.trains_from(4 * SAVE_EVERY + 5, restart=0)
        os.kill(third[0].process, signal.SIGSTOP)
        stopped = time.time()
        noticed = run.reported(SupervisorCode.SILENT)
        bound = max(10.0, 5 * run.usual_step())
        assert run.finish() == 0
    finally:
        run.end()
    steps = run.events(EventKind.STEP)
    wrong = differing(straight, steps)
    last = f"iter_{STEPS:07d}"
    tensors, changed = differing_tensors(saved / last, run.saved / last, engine=MEGATRON)
    figure("supervisor", "processes left by a killed agent gone after", f"{gone:.2f} s")
    took = noticed.time - stopped
    figure("supervisor", "stopped rank noticed after", f"{took:.1f} s (bar {bound:.1f} s)")
    figure("supervisor", f"differing steps of {len(steps)}, tensors of {tensors}", "0")
    assert gone <= 5.0
    assert took <= bound
    assert noticed.values["stopped"] == [0]
    (words,) = (run.directory / "last-words").iterdir()
    stacks = [path.read_text() for path in words.glob("stack-rank-*.txt")]
    assert ["Thread" in stack for stack in stacks] == [True, True], "the stacks of both ranks"
    assert (wrong, changed) == ([], [])
    assert len(run.findings(SupervisorCode.DIED)) == 2
    assert len(run.findings(SupervisorCode.AGENT)) == 1


def test_asked_to_end_it_saves_and_goes_on_from_there(tmp_path: Path) -> None:
    model = {**MODEL, "train-iters": 24, "save-interval": 1000}
    run = Supervised(tmp_path, model)
    try:
        run.trains_from(5)
        run.process.terminate()
        assert run.finish() == UNFINISHED
    finally:
        run.end()
    (saved,) = [event.step for event in run.events(EventKind.SAVE)]
    assert len(run.findings(SupervisorCode.ASKED)) == 1
    assert not run.findings(SupervisorCode.DIED)
    again = Supervised(tmp_path, model)
    try:
        assert again.finish() == 0
    finally:
        again.end()
    assert [event.step for event in again.events(EventKind.START)] == [0, saved]


@pytest.mark.slow
def test_a_start_that_was_replaced_is_not_started_again(tmp_path: Path) -> None:
    run = Supervised(tmp_path, {**MODEL, "train-iters": 100_000, "save-interval": SAVE_EVERY})
    try:
        run.trains_from(SAVE_EVERY + 1)
        place = LocalPlace(run.saved)
        claim(place, "another", newest_step(place))
        committed = newest_step(place)
        assert run.finish() == StopCode.STALE
    finally:
        run.end()
    assert newest_step(LocalPlace(run.saved)) == committed
    assert len(run.findings(SupervisorCode.DIED)) == 1
    assert len(run.events(EventKind.START)) == 1


@pytest.mark.slow
def test_saves_ten_times_as_long_are_no_alarm(tmp_path: Path, figure: Figure) -> None:
    model = {**MODEL, "train-iters": 60, "save-interval": 5}
    run = Supervised(tmp_path, model, SEATRIAL_DRILL_FAULT="slow-saves")
    try:
        assert run.finish() == 0
    finally:
        run.end()
    saves = [event.values["seconds"] for event in run.events(EventKind.SAVE)]
    quick, slow = sorted(saves[0::2]), sorted(saves[1::2])
    ratio = slow[len(slow) // 2] / quick[len(quick) // 2]
    figure("supervisor", f"alarms in {len(saves)} saves, every second {ratio:.0f} × as long", "0")
    assert ratio > 5
    assert not run.events(EventKind.FINDING)
    assert len(run.events(EventKind.START)) == 1
