# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The supervisor's findings, as log lines and events."""

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
from seatrial.worker.supervisor.crash_report import LAST_WORDS, CrashReport
from seatrial.worker.supervisor.heartbeats import Beat
from seatrial.worker.supervisor.timeouts import MARGIN, Silence


class Reports:
    """Writes findings about the processes on a node."""

    def __init__(self, events: Path | None, node_rank: int) -> None:
        self._events = events
        self._node = node_rank

    def directory(self, cause: str) -> Path:
        """Return a new directory for a crash report, next to the event log."""
        when = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
        home = self._events.parent if self._events else Path.cwd()
        return home / LAST_WORDS / f"{when}-node-{self._node}-{cause}"

    def died(self, failure: Failure, rank: int, step: int, *, is_final: bool = False) -> None:
        """Report that a rank exited, possibly after it saved on a node without a stop request.

        `is_final` is True if a restart would not help.
        """
        how, severity = _ended(failure.code), Severity.WARNING
        fix = (
            "See the rank's output above. If there is no output, the rank may have run out of "
            "memory: see the pod's status."
        )
        after = "all ranks restart, from the last checkpoint if there is one"
        if is_final:
            after = "a restart would not help"
        if failure.code == UNFINISHED:
            how, severity = (
                "exited before the last step without a stop request to this node",
                Severity.NOTE,
            )
            fix = (
                "No action needed if another node was drained. Otherwise, see the rank's output "
                "above."
            )
        self._report(
            SupervisorCode.DIED,
            severity,
            f"rank {rank} {how}; {after}.",
            fix,
            step,
            failure.code,
            rank=rank,
            process=failure.process,
        )

    def silent(self, silence: Silence, stopped: list[int], where: Path) -> None:
        """Report processes without a heartbeat; some of them may be stopped."""
        ranks = ", ".join(str(beat.rank) for beat in silence.beats)
        who = f"rank {stopped[0]} is stopped; " if stopped else ""
        first = min(silence.beats, key=lambda beat: beat.since)
        self._report(
            SupervisorCode.SILENT,
            Severity.WARNING,
            f"{who}no heartbeat from ranks {ranks} for {silence.seconds:.1f} s in phase "
            f"{first.phase} after step {first.step} (timeout {silence.limit - MARGIN:.1f} s).",
            f"See their stacks and states in {where}.",
            first.step,
            round(silence.seconds, 3),
            ranks=[beat.rank for beat in silence.beats],
            stopped=stopped,
            limit=round(silence.limit, 3),
        )

    def collected(self, report: CrashReport) -> None:
        """Report the contents of a crash report."""
        sys.stderr.write(
            f"seatrial: node {self._node}: wrote {report.stacks} stacks and {report.flights} NCCL "
            f"flight recorder dumps to {report.directory}\n"
        )
        sys.stderr.flush()

    def moved(self, silence: Silence, beats: list[Beat]) -> None:
        """Report that processes recovered by themselves."""
        step = max((beat.step for beat in beats), default=0)
        self._report(
            SupervisorCode.MOVED,
            Severity.NOTE,
            f"the ranks recovered after more than {silence.limit:.1f} s without a heartbeat.",
            "Find out what the step waited for: data, the file system or the network.",
            step,
            round(silence.seconds, 3),
        )

    def agent_ended(self, code: int, step: int) -> None:
        """Report that the agent exited without reporting a process."""
        rule = f"torchrun {_ended(code)}, together with its ranks."
        fix = (
            "See torchrun's output above. If torchrun lost contact with other nodes, see their "
            "output too."
        )
        self._report(SupervisorCode.AGENT, Severity.WARNING, rule, fix, step, code)

    def no_progress(self, restarts: int) -> None:
        """Report that restarts make no progress."""
        rule = f"{restarts} consecutive restarts made no progress: the run has failed."
        fix = "Find the cause in the output above and in the findings from this attempt."
        self._report(SupervisorCode.NO_PROGRESS, Severity.ERROR, rule, fix, 0, restarts)

    def asked(self, step: int, *, trained: bool) -> None:
        """Report a stop request."""
        rule = "stop requested: the ranks save a checkpoint and exit."
        if not trained:
            rule = "stop requested before training started: there is no state to save."
        fix = "No action needed if a node was drained or the run was stopped."
        self._report(SupervisorCode.ASKED, Severity.NOTE, rule, fix, step, "SIGTERM")

    def unsaved(self, ranks: Mapping[int, int], grace: float, step: int) -> None:
        """Report ranks that exited without a save after a stop request."""
        how = ", ".join(f"rank {rank} {_ended(code)}" for rank, code in sorted(ranks.items()))
        self._report(
            SupervisorCode.UNSAVED,
            Severity.WARNING,
            f"not all ranks saved after the stop request ({how}), so the run resumes from the "
            "previous checkpoint.",
            f"See the output of these ranks above. Killed ranks had {grace:g} s to save. If saves "
            "take longer, save more often, or drain nodes with a longer grace period.",
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
            sys.stderr.write(f"seatrial: cannot write the event log: {error}\n")
        finally:
            log.close()


def _ended(code: int) -> str:
    """Describe the exit of a process."""
    if code >= 0:
        return f"exited (code {code})"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
