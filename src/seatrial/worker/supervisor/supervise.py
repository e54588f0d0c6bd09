# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Supervise the processes on one node until an attempt ends."""

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from seatrial.checkpoints.stopping import StopCode
from seatrial.monitoring.processes import (
    MARK,
    begun,
    children,
    end,
    end_marked,
    new_mark,
    state,
    variables,
)
from seatrial.worker.process import UNFINISHED, UNSUITABLE, adopt_orphans
from seatrial.worker.settings import ATTEMPT, FRUITLESS, STEP_GROWTH
from seatrial.worker.supervisor.agent import MASTER, Agent, Closing, Failure, Rendezvous
from seatrial.worker.supervisor.crash_report import recorder_variables
from seatrial.worker.supervisor.exit_records import (
    Final,
    forget_ends,
    read_ends,
    remember,
    remembered,
)
from seatrial.worker.supervisor.hangs import Hangs
from seatrial.worker.supervisor.heartbeats import (
    DIRECTORY,
    Beat,
    RankPhase,
    forget_beats,
    read_beats,
)
from seatrial.worker.supervisor.rank import SUPERVISOR
from seatrial.worker.supervisor.reports import Reports
from seatrial.worker.supervisor.restart_budget import RestartBudget
from seatrial.worker.supervisor.status import SupervisorStatus, write_status
from seatrial.worker.supervisor.timeouts import HeartbeatTimeouts, HeartbeatWatch

RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"
"""torchrun sets this variable for its ranks, and for no other process."""


class Orphans:
    """Finds orphaned processes among this process's children."""

    def __init__(self, agent: int) -> None:
        """Store the one child that this process started itself."""
        self._agent = agent

    def end_those_without(self, beats: list[Beat], alive: Collection[int]) -> None:
        """Kill every process that its rank has replaced, and reap those that have exited.

        The restart count identifies a start only on the node where a rank failed: on other nodes,
        torchrun does not count. So a process that is older than its rank's current process is an
        orphan.
        """
        ranks = {b.rank: begun(b.process) for b in beats if b.process in alive}
        for process in children(os.getpid()):
            if process == self._agent:
                continue
            if not state(process):
                with suppress(ChildProcessError):
                    os.waitpid(process, os.WNOHANG)
                continue
            environment = variables(process)
            if RESTART_COUNT not in environment:
                # The supervisor started this one itself. Some operators set RANK to a node number.
                continue
            with suppress(KeyError, ValueError):
                rank = int(environment["RANK"])
                if rank not in ranks or begun(process) < ranks[rank]:
                    end(process)

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


LOOK_SECONDS = 0.25
"""Interval between checks of the processes."""
LINGER_SECONDS = 2.0
"""How long surviving ranks may take to exit after another rank died.

They cannot save without the dead rank. torchrun sends SIGTERM, which the engine treats as a request
to save, so they would block in a collective until torchrun kills them after 30 s. A rank that has
finished training keeps the 30 s: it may still be flushing its reports."""
PAUSE_SECONDS = 1.0
"""Pause between the exit of one agent and the start of the next."""
CONNECT_SECONDS = 30.0
"""An agent that exits sooner has not waited for other nodes; torch gives up after 60 s."""
WAIT_SECONDS = 1800.0
"""How long nodes may wait for the first node before their waits count as restarts."""
FINAL_CODES = frozenset((*StopCode, UNSUITABLE))
"""Exit codes for which a restart would not help."""


@dataclass(frozen=True, slots=True)
class NodeTask:
    """The configuration of a supervisor."""

    meeting: Rendezvous
    """The rendezvous of the nodes."""
    words: tuple[str, ...]
    """The rest of torchrun's command line: log options, the module, the engine's arguments."""
    python: str
    """The Python interpreter that has torch."""
    directory: Path
    """Directory for heartbeats and the status, on this node."""
    events: Path | None
    """The event log; if None, no events are written."""
    restarts: int
    """Number of consecutive restarts without progress before the attempt fails."""
    grace_seconds: float
    """How long the processes may take to save after a stop request."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables for the processes."""

    def command(self) -> list[str]:
        """Return the argv that starts torchrun."""
        begin = [self.python, "-m", "torch.distributed.run"]
        return [*begin, *self.meeting.words(self.restarts), *self.words]


class Supervisor:
    """Keeps the processes on one node running, and kills them if they make no progress."""

    def __init__(
        self,
        task: NodeTask,
        budget: RestartBudget,
        out: BinaryIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._task = task
        self._budget = budget
        self._out = out
        self._clock = clock
        self._reports = Reports(task.events, task.meeting.node_rank)
        growth = float(os.environ.get(STEP_GROWTH) or 1)
        self._watch = HeartbeatWatch(HeartbeatTimeouts(growth))
        self._hangs = Hangs(self._watch, self._reports, task.directory, task.python)
        self._mark = os.environ.get(MARK) or new_mark()
        self._asked = 0.0
        self._saw_off = self._given_up = False
        self._restarts = 0
        self._last_met = clock()
        self._agent: Agent | None = None

    def stop(self, _: int = 0, __: FrameType | None = None) -> None:
        """Tell the processes to save and exit."""
        if not self._asked:
            self._asked = self._clock()
            if self._agent is not None and self._agent.code() is None:
                self._agent.ask()

    def work(self) -> int:
        """Run until the attempt ends. Return its exit code; 128 + N for signal N."""
        adopt_orphans()
        self._task.directory.mkdir(parents=True, exist_ok=True)
        before = remembered(self._task.directory, self._task.meeting.name)
        if before is not None:
            return self._over(before.code, f"already failed (code {before.code}, final),")
        self._write_status([], self._clock())
        while True:
            life = self._once()
            if life.code == 0:
                return self._over(0, "finished")
            if self._asked:
                return self._over(*self._end_as_asked(life))
            waited = self._clock() - self._last_met < WAIT_SECONDS and self._waited_in_vain(life)
            if self._given_up or not (waited or life.is_counted or self._may_restart()):
                last = life.failures[-1].code if life.failures else life.code
                if last == UNFINISHED:
                    # This code would mean that a stop was requested and that the run can continue.
                    last = StopCode.NO_PROGRESS
                if last in FINAL_CODES - {StopCode.STALE}:
                    final = Final(self._task.meeting.name, last)
                    remember(self._task.directory, final)
                return self._over(last if last > 0 else 128 - last, f"failed (code {last})")
            time.sleep(PAUSE_SECONDS)

    def _end_as_asked(self, life: "_Life") -> tuple[int, str]:
        """Return the exit code after a stop request, and why: `UNFINISHED` only if all saved."""
        ends = read_ends(self._task.directory)
        codes = [*ends.values(), *(failure.code for failure in life.failures)]
        final = next((code for code in codes if code in FINAL_CODES), None)
        if final is not None:
            return final, f"stop requested, but failed (code {final})"
        beats = read_beats(self._task.directory)
        unsaved = {
            beat.rank: ends.get(beat.process, -signal.SIGKILL)
            for beat in beats
            if beat.resumed >= 0 and ends.get(beat.process) not in (0, UNFINISHED)
        }
        if not unsaved:
            return UNFINISHED, "stopped as requested"
        self._reports.unsaved(unsaved, self._task.grace_seconds, life.step)
        code = max(unsaved.values())
        return (code if code > 0 else 128 - code), "stopped as requested, but not all ranks saved"

    def _waited_in_vain(self, life: "_Life") -> bool:
        """True if the agent exited only because it did not find the first node.

        The first node may be delayed for minutes; other nodes must not use up their restarts.
        """
        is_early = self._clock() - life.began < CONNECT_SECONDS
        return not (life.met or life.failures or is_early)

    def _once(self) -> "_Life":
        """Run an agent until it exits."""
        forget_beats(self._task.directory)
        forget_ends(self._task.directory)
        task = self._task
        environment = {
            **recorder_variables(task.directory),
            **os.environ,
            **task.environment,
            MARK: self._mark,
            DIRECTORY: str(task.directory),
            SUPERVISOR: str(os.getpid()),
            MASTER: task.meeting.address,
            # Otherwise ranks try to resolve torchrun's name for this node, which has no DNS entry.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            # Starts without progress are also counted next to the checkpoints, over all pods.
            ATTEMPT: task.meeting.name,
            FRUITLESS: str(task.restarts + 1),
        }
        agent = self._agent = Agent(task.command(), environment, self._out)
        orphans = Orphans(agent.process)
        if self._asked:
            agent.ask()
        now = self._clock()
        life = _Life(agent, now, now)
        while (code := agent.code()) is None:
            self._look(life, orphans)
            time.sleep(LOOK_SECONDS)
        life.code = code
        if life.met:
            self._last_met = self._clock()
        # Kill remaining processes: a surviving rank would write to the same files as its successor.
        end_marked(self._mark, spared={os.getpid()})
        orphans.reap()
        agent.drain()
        self._take_signs(life)
        beats = read_beats(self._task.directory)
        life.is_counted = life.seen_at_failure is not None and not any(
            beat.resumed >= 0 and beat.process not in life.seen_at_failure for beat in beats
        )
        if self._asked:
            self._report_asked(life)
        elif code != 0 and not life.is_counted:
            self._reports.agent_ended(code, life.step)
        return life

    def _look(self, life: "_Life", orphans: Orphans) -> None:
        """Check the processes for all problems."""
        now = self._clock()
        beats = read_beats(self._task.directory)
        alive = {b.process: letter for b in beats if (letter := state(b.process))}
        self._begin(life, beats, alive)
        self._take_signs(life)
        leaving = {beat.process for beat in beats if beat.phase is RankPhase.ENDING}
        for process in life.overdue(now):
            if process not in leaving:
                end(process)
        if not life.closing and not self._asked:
            self._hangs.look(beats, alive, now)
        orphans.end_those_without(beats, alive)
        if self._asked:
            self._see_off(life, now)
        if now - life.reported >= 1.0:
            life.reported = now
            self._write_status(beats, now)

    def _see_off(self, life: "_Life", now: float) -> None:
        """Handle a stop request: the processes have the pod's grace period to save and exit."""
        self._report_asked(life)
        if now - self._asked > self._task.grace_seconds:
            life.agent.kill()

    def _report_asked(self, life: "_Life") -> None:
        if not self._saw_off:
            self._saw_off = True
            self._reports.asked(life.step, trained=bool(life.begun))

    def _begin(self, life: "_Life", beats: list[Beat], alive: Mapping[int, str]) -> None:
        """Record processes that have started to train."""
        life.met |= bool(alive)
        for beat in beats:
            if beat.process in alive:
                life.step = max(life.step, beat.step)
                if beat.resumed >= 0 and beat.process not in life.begun:
                    life.begun.add(beat.process)
                    self._budget.began(beat.resumed)

    def _take_signs(self, life: "_Life") -> None:
        """Process the agent's messages about its processes."""
        for sign in life.agent.signs():
            match sign:
                case Closing(process):
                    if not self._asked:
                        life.closing[process] = self._clock() + LINGER_SECONDS
                case Failure():
                    self._failed(life, sign)

    def _failed(self, life: "_Life", failure: Failure) -> None:
        """Handle a failed process. The agent restarts all ranks, unless a restart cannot help."""
        life.failures.append(failure)
        if self._asked or self._given_up:
            return
        self._restarts += 1
        self._hangs.forget()
        first = self._task.meeting.processes * self._task.meeting.node_rank
        self._given_up = failure.code in FINAL_CODES
        rank = first + failure.local_rank
        self._reports.died(failure, rank, life.step, is_final=self._given_up)
        life.seen_at_failure = {beat.process for beat in read_beats(self._task.directory)}
        if self._given_up or not self._may_restart():
            life.agent.kill()

    def _may_restart(self) -> bool:
        if self._budget.spend():
            return True
        self._given_up = True
        self._reports.no_progress(self._budget.spent - 1)
        return False

    def _write_status(self, beats: list[Beat], now: float) -> None:
        newest = max(beats, key=lambda beat: beat.since, default=None)
        phase = newest.phase if newest else RankPhase.STARTING
        silent = now - newest.since if newest else 0.0
        limit = self._watch.patience.limit(phase)
        step = newest.step if newest else 0
        status = SupervisorStatus(now, phase, step, silent, limit, self._restarts)
        write_status(self._task.directory, status)

    def _over(self, code: int, why: str) -> int:
        status = SupervisorStatus(self._clock(), RankPhase.ENDING, 0, 0.0, 0.0, self._restarts, why)
        write_status(self._task.directory, status)
        if code:
            sys.stderr.write(f"seatrial: {why} after {self._restarts} restarts.\n")
        return code


@dataclass
class _Life:
    """The state of one agent's processes."""

    agent: Agent
    began: float
    """When the agent was started."""
    reported: float
    """When the status was last written."""
    step: int = 0
    code: int = 0
    """The agent's exit code after it has exited."""
    failures: list[Failure] = field(default_factory=list)
    """Processes that failed."""
    seen_at_failure: set[int] | None = None
    """Processes that had sent a heartbeat when the last failure was counted."""
    is_counted: bool = False
    """True if the agent exited because of a failure that was already counted: no process has
    started to train since."""
    begun: set[int] = field(default_factory=set)
    """Processes that have started to train."""
    met: bool = False
    """True if the rendezvous completed. The agent starts processes only after that."""
    closing: dict[int, float] = field(default_factory=dict)
    """Processes to which the agent sent a closing signal, with their deadlines."""

    def overdue(self, now: float) -> list[int]:
        """Return the processes past their deadline. Processes that have exited are dropped."""
        self.closing = {p: until for p, until in self.closing.items() if state(p)}
        return [process for process, until in self.closing.items() if now > until]
