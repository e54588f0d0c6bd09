# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The supervisor with real processes, and a stand-in for torchrun and its ranks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.checkpoints.stopping import StopCode
from seatrial.codes.supervisor import SupervisorCode
from seatrial.monitoring.event_log import Event, read_events
from seatrial.monitoring.processes import MARK, children, end_marked, marked, new_mark, state
from seatrial.worker.process import UNFINISHED, UNSUITABLE
from seatrial.worker.supervisor.exit_records import remembered
from seatrial.worker.supervisor.heartbeats import Beat, RankPhase, read_beats
from seatrial.worker.supervisor.status import read_status
from tests.unit.worker.supervisor import stand_in

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
    pytest.mark.timeout(900),
]

HASTE = """
import sys
from seatrial.worker.supervisor import __main__, hangs, supervise, timeouts
# Silence of 2 s is enough here; the figures themselves are tested elsewhere.
timeouts.STEP_FLOOR, timeouts.EARLY_FLOOR, timeouts.MARGIN = 2.0, 5.0, 0.0
supervise.CONNECT_SECONDS, hangs.CERTAIN_FLOOR = 0.5, 3.0
sys.exit(__main__.main())
"""
REACHED = 300.0
"""Seconds within which anything should have happened, on a busy host."""


class Node:
    """A supervisor with its processes."""

    def __init__(self, place: Path, restarts: int, grace: int) -> None:
        self.place = place
        self.events_file = place / "events.jsonl"
        self.mark = new_mark()
        program = place / "python"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in.__file__} "$@"\n')
        program.chmod(0o755)
        words = [
            *("--nodes=1", "--processes=2", "--node-rank=0", "--address=127.0.0.1", "--port=1"),
            *("--name=run", f"--restarts={restarts}", f"--directory={place / 'beats'}"),
            *(f"--grace-seconds={grace}", f"--python={program}", "--", "--module", "worker"),
        ]
        told = {
            stand_in.PLACE: str(place),
            MARK: self.mark,
            "SEATRIAL_EVENTS": str(self.events_file),
        }
        with (place / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", HASTE, *words], env=os.environ | told, stdout=log, stderr=log
            )

    def beats(self) -> list[Beat]:
        """What ranks that are alive told."""
        return [beat for beat in read_beats(self.place / "beats") if state(beat.process)]

    def trains(self, steps: int = 1) -> list[Beat]:
        """The beats of both ranks, once they have done so many steps."""
        self.until(lambda: sum(beat.step >= steps for beat in self.beats()) == stand_in.RANKS)
        return self.beats()

    def agent(self) -> int:
        return next(p for p in children(self.process.pid) if p not in self.helpers())

    def helpers(self) -> list[int]:
        """The processes that ranks have started."""
        return [p for p in self.all() if Path(f"/proc/{p}/comm").read_text() == "sleep\n"]

    def all(self) -> list[int]:
        return [p for p in marked(self.mark) if state(p) and p != self.process.pid]

    def findings(self, code: SupervisorCode) -> list[Event]:
        if not self.events_file.exists():
            return []
        return [e for e in read_events(self.events_file) if e.values.get("code") == code]

    def until(self, happened: Callable[[], bool], seconds: float = REACHED) -> float:
        began = time.monotonic()
        while not happened():
            assert time.monotonic() - began < seconds, (self.place / "log").read_text()
            time.sleep(0.02)
        return time.monotonic() - began


Start = Callable[..., Node]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    nodes: list[Node] = []

    def begin(restarts: int = 3, grace: int = 20) -> Node:
        nodes.append(Node(tmp_path, restarts, grace))
        return nodes[-1]

    yield begin
    for node in nodes:
        node.process.kill()
        node.process.wait()
        end_marked(node.mark)


def test_all_ranks_start_again_when_one_is_killed(start: Start) -> None:
    node = start()
    before = {beat.process for beat in node.trains()}
    helpers = node.helpers()
    assert len(helpers) == 2
    os.kill(min(before), signal.SIGKILL)
    node.until(lambda: not before & {beat.process for beat in node.beats()})
    assert {beat.restart for beat in node.trains()} == {1}
    # What the dead ranks had started is gone too.
    node.until(lambda: not any(map(state, helpers)))
    (finding,) = node.findings(SupervisorCode.DIED)
    assert "SIGKILL" in finding.values["rule"]
    assert finding.values["value"] == "-9"
    status = read_status(node.place / "beats")
    assert status is not None
    node.until(lambda: (read_status(node.place / "beats") or status).restarts == 1)


def test_nothing_outlives_an_agent_that_is_killed(start: Start) -> None:
    node = start()
    node.trains()
    agent, before = node.agent(), node.all()
    os.kill(agent, signal.SIGKILL)
    took = node.until(lambda: not any(map(state, before)))
    assert took < 5.0
    node.trains()
    assert node.agent() != agent
    (finding,) = node.findings(SupervisorCode.AGENT)
    assert finding.values["value"] == "-9"


def test_an_agent_that_is_killed_after_it_replaced_a_rank_is_reported(start: Start) -> None:
    node = start()
    before = {beat.process for beat in node.trains()}
    os.kill(min(before), signal.SIGKILL)
    node.until(lambda: not before & {beat.process for beat in node.beats()})
    node.trains()
    agent = node.agent()
    os.kill(agent, signal.SIGKILL)
    node.until(lambda: len(node.findings(SupervisorCode.AGENT)) == 1)
    assert len(node.findings(SupervisorCode.DIED)) == 1


def test_nothing_outlives_the_supervisor_but_what_others_end(start: Start) -> None:
    node = start()
    before = [beat.process for beat in node.trains()]
    agent = node.agent()
    node.process.kill()
    node.until(lambda: not any(map(state, [agent, *before])), 5.0)


def test_a_stopped_rank_is_noticed_and_all_start_again(start: Start) -> None:
    node = start()
    before = node.trains(steps=40)
    os.kill(before[1].process, signal.SIGSTOP)
    node.until(lambda: len(node.findings(SupervisorCode.SILENT)) == 1)
    (finding,) = node.findings(SupervisorCode.SILENT)
    assert finding.values["stopped"] == [1]
    assert finding.values["ranks"] == [1]
    node.until(lambda: {beat.restart for beat in node.beats()} == {1})
    (where,) = (node.place / "last-words").iterdir()
    told = (where / "processes.txt").read_text()
    assert "rank 1" in told
    assert "state T" in told
    assert not node.findings(SupervisorCode.MOVED)


def test_ranks_that_only_hang_are_ended_later(start: Start) -> None:
    node = start()
    before = {beat.process for beat in node.trains(steps=40)}
    (node.place / "hang").touch()
    node.until(lambda: len(node.findings(SupervisorCode.SILENT)) == 1)
    assert {beat.process for beat in node.beats()} == before
    (node.place / "hang").unlink()
    node.until(lambda: not before & {beat.process for beat in node.beats()})
    node.trains()
    assert node.findings(SupervisorCode.SILENT)[0].values["stopped"] == []


def test_a_rank_that_is_stopped_in_a_save_is_noticed_as_well(start: Start) -> None:
    node = start()
    node.trains(steps=40)
    (node.place / "save").write_text("1000")
    node.until(lambda: all(beat.phase is RankPhase.SAVING for beat in node.beats()))
    (node.place / "save").unlink()
    os.kill(node.beats()[0].process, signal.SIGSTOP)
    # A save alone may take ten minutes.
    node.until(lambda: len(node.findings(SupervisorCode.SILENT)) == 1, 60)
    (finding,) = node.findings(SupervisorCode.SILENT)
    assert finding.values["stopped"] == [0]
    node.until(lambda: {beat.restart for beat in node.beats()} == {1})
    assert not node.findings(SupervisorCode.MOVED)


def test_a_save_ten_times_as_long_is_no_alarm(start: Start) -> None:
    node = start()
    node.trains(steps=40)
    # Steps are of 0.02 s, and 2 s of silence would be too many.
    (node.place / "save").write_text("0.3")
    node.trains(steps=45)
    (node.place / "save").write_text("3")
    node.until(lambda: all(beat.phase is RankPhase.SAVING for beat in node.beats()))
    newest = max(beat.step for beat in node.beats())
    node.until(lambda: all(beat.step > newest + 1 for beat in node.beats()))
    assert not node.findings(SupervisorCode.SILENT)
    assert {beat.restart for beat in node.beats()} == {0}


def test_asked_to_end_it_saves_and_does_not_succeed(start: Start) -> None:
    node = start()
    node.trains()
    node.process.terminate()
    assert node.process.wait(timeout=REACHED) == UNFINISHED
    assert len(node.findings(SupervisorCode.ASKED)) == 1
    assert not node.findings(SupervisorCode.DIED)
    assert not node.findings(SupervisorCode.UNSAVED)
    node.until(lambda: not node.all(), 5.0)
    status = read_status(node.place / "beats")
    assert status is not None
    assert status.ended == "stopped as requested"


@pytest.mark.parametrize("code", [1, StopCode.STALE])
def test_asked_to_end_it_does_not_say_that_it_saved_when_it_did_not(
    tmp_path: Path, start: Start, code: int
) -> None:
    (tmp_path / "full").write_text(str(int(code)))
    node = start()
    node.trains()
    node.process.terminate()
    assert node.process.wait(timeout=REACHED) == code
    findings = node.findings(SupervisorCode.UNSAVED)
    # That another start has replaced this one says itself what became of it.
    assert [finding.values["ranks"] for finding in findings] == ([[0, 1]] if code == 1 else [])


def test_asked_to_end_it_says_when_ranks_were_killed_before_they_saved(
    tmp_path: Path, start: Start
) -> None:
    (tmp_path / "deaf").touch()
    node = start(grace=2)
    node.trains()
    node.process.terminate()
    assert node.process.wait(timeout=REACHED) == 128 + signal.SIGKILL
    (finding,) = node.findings(SupervisorCode.UNSAVED)
    assert "rank 0 was killed by SIGKILL" in finding.values["rule"]


def test_a_survivor_that_does_not_listen_is_not_waited_for(tmp_path: Path, start: Start) -> None:
    (tmp_path / "deaf").touch()
    node = start()
    before = node.trains()
    os.kill(before[0].process, signal.SIGKILL)
    # torchrun itself would wait for it for 30 s.
    took = node.until(lambda: {beat.restart for beat in node.beats()} == {1}, 25)
    assert took < 20


def test_one_whose_training_is_over_may_finish_what_it_tells(tmp_path: Path, start: Start) -> None:
    (tmp_path / "leave").write_text("8")
    node = start()
    node.trains()
    first, last = node.beats()
    # Its last line is written when it ends by itself.
    os.kill(last.process, signal.SIGTERM)
    node.until(lambda: any(beat.phase is RankPhase.ENDING for beat in node.beats()))
    os.kill(first.process, signal.SIGKILL)
    node.until(lambda: (tmp_path / f"left-{last.process}").exists(), 60)


def test_a_run_that_gets_nowhere_has_failed(start: Start) -> None:
    node = start(restarts=2)
    (node.place / "fail").write_text("3")
    assert node.process.wait(timeout=REACHED) == 3
    (finding,) = node.findings(SupervisorCode.NO_PROGRESS)
    assert finding.values["value"] == "2"
    assert len(node.findings(SupervisorCode.DIED)) == 3
    node.until(lambda: not node.all(), 5.0)


def test_ends_that_nobody_asked_for_are_counted_as_well(start: Start) -> None:
    """The engine ends with 0 where it cannot read its tracker, and a pod makes that 75."""
    node = start(restarts=2)
    (node.place / "fail").write_text(str(UNFINISHED))
    assert node.process.wait(timeout=REACHED) == StopCode.NO_PROGRESS
    assert len(node.findings(SupervisorCode.DIED)) == 3
    (finding,) = node.findings(SupervisorCode.NO_PROGRESS)
    assert finding.values["value"] == "2"


@pytest.mark.parametrize("code", [82, UNSUITABLE])
def test_a_process_that_says_that_a_restart_would_not_help_is_believed(
    start: Start, code: int
) -> None:
    node = start(restarts=5)
    (node.place / "fail").write_text(str(code))
    assert node.process.wait(timeout=REACHED) == code
    (died,) = node.findings(SupervisorCode.DIED)
    assert died.values["rule"].endswith("; a restart would not help.")
    # A kubelet starts the container again whatever it ended with: it ends at once.
    (node.place / "fail").unlink(missing_ok=True)
    again = start(restarts=5)
    assert again.process.wait(timeout=REACHED) == code
    assert f"already failed (code {code}, final)" in (node.place / "log").read_text()
    assert remembered(node.place / "beats", "another attempt") is None


def test_waiting_for_the_first_node_uses_up_no_restarts(tmp_path: Path, start: Start) -> None:
    (tmp_path / "alone").touch()
    node = start(restarts=1)
    node.until(lambda: len(node.findings(SupervisorCode.AGENT)) >= 3)
    assert node.process.poll() is None
    (tmp_path / "alone").unlink()
    node.trains()
    assert not node.findings(SupervisorCode.NO_PROGRESS)


def test_without_restarts_the_first_failure_is_the_last(start: Start) -> None:
    node = start(restarts=0)
    node.trains()
    os.kill(node.beats()[0].process, signal.SIGKILL)
    assert node.process.wait(timeout=REACHED) == 128 + signal.SIGKILL
    assert len(node.findings(SupervisorCode.DIED)) == 1
