# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the supervisor has to report: a line for whoever reads the log, and an event."""

import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.codes.supervisor import SupervisorCode
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.worker.process import UNFINISHED
from seatrial.worker.supervisor.agent import Failure
from seatrial.worker.supervisor.crash_report import LAST_WORDS, Told
from seatrial.worker.supervisor.heartbeats import Beat
from seatrial.worker.supervisor.timeouts import MARGIN, Silence


class Reports:
    """Writes findings about a node's processes."""

    def __init__(self, events: Path | None, node_rank: int) -> None:
        """Take the event log, and the node that is spoken of."""
        self._events = events
        self._node = node_rank

    def directory(self, cause: str) -> Path:
        """A new directory for last words, beside the event log."""
        when = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
        home = self._events.parent if self._events else Path.cwd()
        return home / LAST_WORDS / f"{when}-node-{self._node}-{cause}"

    def died(self, failure: Failure, rank: int, step: int) -> None:
        """A process has ended; one that saved before, on a node that was not asked to, as well."""
        how, severity = _ended(failure.code), Severity.WARNING
        fix = (
            "See what it printed before. Killed by signal 9 without a word, it may have run out "
            "of memory: see the pod's status."
        )
        if failure.code == UNFINISHED:
            how, severity = "before the last step, and nobody asked this node to end", Severity.NOTE
            fix = "Nothing, if another node was drained. Otherwise see what it printed before."
        self._report(
            SupervisorCode.DIED,
            severity,
            f"rank {rank} ended {how}; all ranks start again from the last checkpoint.",
            fix,
            step,
            failure.code,
            rank=rank,
            process=failure.process,
        )

    def silent(self, silence: Silence, stopped: list[int], where: Path) -> None:
        """Processes have been silent for too long; some of them may be stopped."""
        ranks = ", ".join(str(beat.rank) for beat in silence.beats)
        who = f"rank {stopped[0]} is stopped, and " if stopped else ""
        first = min(silence.beats, key=lambda beat: beat.since)
        self._report(
            SupervisorCode.SILENT,
            Severity.WARNING,
            f"{who}ranks {ranks} have told nothing for {silence.seconds:.1f} s in {first.phase} "
            f"after step {first.step}; more than {silence.limit - MARGIN:.1f} s is unusual.",
            f"Their stacks and what else is known go to {where}.",
            first.step,
            round(silence.seconds, 3),
            ranks=[beat.rank for beat in silence.beats],
            stopped=stopped,
            limit=round(silence.limit, 3),
        )

    def collected(self, told: Told) -> None:
        """Last words were collected."""
        sys.stderr.write(
            f"seatrial: node {self._node}: {told.stacks} stacks and {told.flights} dumps of NCCL's "
            f"calls were collected in {told.directory}\n"
        )
        sys.stderr.flush()

    def moved(self, silence: Silence, beats: list[Beat]) -> None:
        """Processes that were silent have gone on by themselves."""
        step = max((beat.step for beat in beats), default=0)
        self._report(
            SupervisorCode.MOVED,
            Severity.NOTE,
            f"the ranks go on after a silence of more than {silence.limit:.1f} s.",
            "See what the step waited for: data, the file system, the network.",
            step,
            round(silence.seconds, 3),
        )

    def agent_ended(self, code: int, step: int) -> None:
        """The agent has ended without telling of a process."""
        rule = f"torchrun ended {_ended(code)}, and its ranks with it."
        fix = "See what it printed. Where it lost the other nodes, see theirs."
        self._report(SupervisorCode.AGENT, Severity.WARNING, rule, fix, step, code)

    def no_progress(self, restarts: int) -> None:
        """Restarts lead nowhere."""
        rule = f"{restarts} restarts in a row began at the same step or before: the run has failed."
        fix = "See why its processes end, in the lines before and in the findings of this attempt."
        self._report(SupervisorCode.NO_PROGRESS, Severity.ERROR, rule, fix, 0, restarts)

    def asked(self, step: int, *, trained: bool) -> None:
        """The pod was asked to end."""
        rule = "the processes were asked to end, and to save before."
        if not trained:
            rule = "the processes were asked to end before they trained: there is nothing to save."
        fix = "Nothing, if a node was drained or the run was stopped."
        self._report(SupervisorCode.ASKED, Severity.NOTE, rule, fix, step, "SIGTERM")

    def unsaved(self, ranks: Mapping[int, int], grace: float, step: int) -> None:
        """Asked to end, some ranks have ended without having saved."""
        how = ", ".join(f"rank {rank} {_ended(code)}" for rank, code in sorted(ranks.items()))
        self._report(
            SupervisorCode.UNSAVED,
            Severity.WARNING,
            f"asked to end, the ranks did not all save, and the run goes on from the checkpoint "
            f"before: {how}.",
            f"See what they printed before. Those that are killed had {grace:g} s to save: where "
            "saves take longer, save more often, or drain nodes with a longer grace.",
            step,
            max(ranks.values()),
            ranks=sorted(ranks),
        )

    def _report(
        self,
        code: SupervisorCode,
        severity: Severity,
        rule: str,
        fix: str,
        step: int,
        value: object,
        **values: Any,
    ) -> None:
        where = Where(field=f"node {self._node}")
        finding = Finding(code, severity, where, rule, str(value), fix)
        sys.stderr.write(f"seatrial: {code} {finding.one_line()}\n")
        sys.stderr.flush()
        if self._events is None:
            return
        try:
            log = EventLog(self._events)
        except OSError:
            return
        try:
            log.write(EventKind.FINDING, step, **finding.to_dict(), node=self._node, **values)
        except OSError as error:
            sys.stderr.write(f"seatrial: the event log cannot be written: {error}\n")
        finally:
            log.close()


def _ended(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"with {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
