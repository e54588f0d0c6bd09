# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One run as a report tells of it: read in one pass, then only looked at."""

from dataclasses import dataclass
from typing import Any

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Goodput
from seatrial.monitoring.metrics import Snapshot
from seatrial.monitoring.prediction import PlanAgainstRun
from seatrial.monitoring.view import RunView
from seatrial.runs.history.history import Begun, Over, RunHistory, empty_history
from seatrial.runs.ledger.ledger import AttemptOutcome


@dataclass(frozen=True, slots=True)
class Chapter:
    name: str
    """How it is called on the page."""
    history: RunHistory
    """Where it was read from."""
    view: RunView
    """What is shown of it."""
    attempts: int
    exit_failed: bool = False
    """Whether the last that its events tell is an end with an error."""

    @property
    def snapshot(self) -> Snapshot:
        """The numbers at its newest step."""
        return self.view.snapshot()

    @property
    def spent(self) -> Goodput:
        """Where its time went."""
        return self.view.goodput()

    @property
    def has_failed(self) -> bool:
        """Whether its newest attempt ended badly, or nobody knows how."""
        attempts = self.history.attempts
        outcome = attempts[-1].outcome if attempts else None
        # Without a ledger only the events tell.
        return (
            self.exit_failed
            if outcome is None
            else outcome in (AttemptOutcome.FAILED, AttemptOutcome.GONE)
        )

    @property
    def tokens_per_step(self) -> int | None:
        """Tokens of a step, where that is known."""
        basis = self.view.metrics.basis()
        return None if basis is None else basis.tokens_per_step

    @property
    def against(self) -> PlanAgainstRun | None:
        """Its plan beside what was measured; nothing where no plan says anything."""
        forecast = self.history.forecast
        return None if forecast is None else forecast.against(self.snapshot)

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the page as plain data."""
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
    """Read a run from its first event to its last; raises where nothing is told of it."""
    basis = history.forecast.basis if history.forecast else None
    view, attempts, exit_failed = RunView(basis), 0, False
    for told in history.story():
        if isinstance(told, Event):
            view.take(told)
            if told.kind in (EventKind.START, EventKind.STEP, EventKind.EXIT):
                exit_failed = bool(told.values.get("error") or told.values.get("code"))
        elif isinstance(told, Begun):
            attempts += 1
            view.begin(told.attempt.number, told.attempt.submitted)
        elif isinstance(told, Over):
            view.end(told.attempt.ended, told.attempt.ending)
    if view.first_time is None:
        raise empty_history(history)
    return Chapter(name or history.name, history, view, attempts, exit_failed)
