# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One run of a report, read in one pass."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seatrial.errors import SeatrialError
from seatrial.monitoring.diagnosis.diagnosis import diagnose
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Goodput
from seatrial.monitoring.metrics import Snapshot
from seatrial.monitoring.prediction import PlanAgainstRun
from seatrial.monitoring.view import RunView
from seatrial.runs.history.diagnose import evidence_of
from seatrial.runs.history.history import Begun, Over, RunHistory, empty_history
from seatrial.runs.history.sources import FileSource
from seatrial.runs.ledger.ledger import AttemptOutcome


class RunState(StrEnum):
    """The state of a run at its newest event."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    UNKNOWN = "incomplete log"
    """The log ends before the last step without an exit."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """One run of a report."""

    name: str
    """The name on the page."""
    history: RunHistory
    view: RunView
    attempts: int
    state: RunState
    has_failed: bool = False
    """True if the newest attempt failed or disappeared."""
    exit: Event | None = None
    """The exit event, if it is the newest event of the processes."""
    cause: str = ""
    """Why the run failed, according to the diagnosis. Empty if it did not fail, or if unknown."""

    @property
    def snapshot(self) -> Snapshot:
        """The numbers at the newest step."""
        return self.view.snapshot()

    @property
    def spent(self) -> Goodput:
        """How wall-clock time was spent."""
        return self.view.goodput()

    @property
    def tokens_per_step(self) -> int | None:
        """The tokens per step. None if unknown, or if the batch size has changed."""
        return self.view.metrics.tokens_per_step

    @property
    def against(self) -> PlanAgainstRun | None:
        """The plan compared with the measurements. None without a prediction."""
        forecast = self.history.forecast
        return None if forecast is None else forecast.against(self.snapshot)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the page for `--json`."""
        now, spent = self.snapshot, self.spent
        return {
            "run": self.name,
            "place": self.history.place,
            "attempts": self.attempts,
            "restarts": spent.restarts,
            "step": now.step,
            "total_steps": now.total_steps,
            "loss": now.loss,
            "validation_loss": now.evaluation,
            "step_seconds": now.step_seconds,
            "tokens_per_second": now.tokens_per_second,
            "mfu": now.mfu,
            "wall_seconds": spent.wall,
            "goodput": spent.share,
            "seconds": {str(bucket): seconds for bucket, seconds in spent.seconds.items()},
            "replayed_steps": spent.replayed_steps,
            "findings": dict(self.view.found),
        }


def read_chapter(history: RunHistory, name: str = "") -> Chapter:
    """Read a run from its first event to its last. Raise if there are no events."""
    basis = history.forecast.basis if history.forecast else None
    view, attempts = RunView(basis), 0
    newest: Event | None = None
    for part in history.story():
        if isinstance(part, Event):
            view.take(part)
            if part.kind in (EventKind.START, EventKind.STEP, EventKind.EXIT):
                newest = part
        elif isinstance(part, Begun):
            attempts += 1
            view.begin(part.attempt.number, part.attempt.submitted)
        elif isinstance(part, Over):
            view.end(part.attempt.ended, part.attempt.ending)
    if view.first_time is None:
        raise empty_history(history)
    ended = newest if newest is not None and newest.kind is EventKind.EXIT else None
    known = history.attempts
    outcome = known[-1].outcome if known else None
    has_failed = _has_failed(outcome, ended)
    state = _state(history, view.snapshot(), outcome, ended)
    cause = _cause(history) if state is RunState.FAILED else ""
    return Chapter(name or history.name, history, view, attempts, state, has_failed, ended, cause)


def _has_failed(outcome: AttemptOutcome | None, ended: Event | None) -> bool:
    if outcome is not None:
        return outcome in (AttemptOutcome.FAILED, AttemptOutcome.GONE)
    # Without a ledger, only the exit event shows it.
    return ended is not None and bool(ended.values.get("error") or ended.values.get("code"))


def _state(
    history: RunHistory, now: Snapshot, outcome: AttemptOutcome | None, ended: Event | None
) -> RunState:
    """Return the state of a run, from its ledger or else from its events."""
    reached = now.total_steps is not None and now.step >= now.total_steps
    # A file counts as live while it is fresh, even if it contains the end of the run.
    if history.is_live() and not (history.only_words and (ended is not None or reached)):
        return RunState.RUNNING
    if _has_failed(outcome, ended):
        return RunState.FAILED
    if outcome in (AttemptOutcome.STOPPED, AttemptOutcome.REPLACED):
        return RunState.STOPPED
    if outcome is AttemptOutcome.SUCCEEDED or reached:
        return RunState.FINISHED
    if ended is None:
        return RunState.UNKNOWN
    return RunState.STOPPED if now.total_steps else RunState.FINISHED


def _cause(history: RunHistory) -> str:
    """Diagnose a failed run. Return an empty string if its files name no cause."""
    # A stream can be read only once, and a cluster would have to be queried.
    if history.site is not None or not isinstance(history.attempts[-1].source, FileSource):
        return ""
    try:
        _, evidence = evidence_of(history)
        causes = diagnose(evidence).causes
    except (SeatrialError, OSError):
        return ""
    return causes[0].says if causes else ""
