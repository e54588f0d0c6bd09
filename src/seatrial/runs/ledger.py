# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The ledger of a run: every attempt, when it began, what it was, how it ended."""

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    """All steps are done."""
    FAILED = "failed"
    """It gave up after its restarts."""
    STOPPED = "stopped"
    """Somebody stopped it."""
    REPLACED = "replaced"
    """Another spec took its place."""
    GONE = "gone"
    """Its job is not there any more, and nobody has noted why."""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt, as the ledger has it."""

    number: int
    """Counted from 1."""
    submission: str
    """Identity of the call that began it."""
    submitted: str
    """When, in UTC."""
    operator: str
    """What runs it."""
    spec_digest: str
    """Identity of the spec."""
    plan_digest: str = ""
    """Identity of the plan."""
    code_digest: str = ""
    """Identity of the Seatrial that rendered it."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that it stays away from."""
    ended: str = ""
    """When it ended, in UTC; empty while it goes on, as far as anybody has noted."""
    outcome: Outcome | None = None
    """How it ended."""
    reason: str = ""
    """Why, in words."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the look before training; the next attempt stays away from them."""

    def to_text(self) -> str:
        """The record as one line."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def finished(self, end: "End") -> "AttemptRecord":
        """The record with its end; the first end that was noted stays."""
        if self.outcome is not None:
            return self
        return replace(
            self,
            ended=end.when,
            outcome=end.outcome,
            reason=end.reason,
            faulty_nodes=end.faulty_nodes,
        )


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended."""

    when: str
    """The time, in UTC."""
    outcome: Outcome
    """How."""
    reason: str = ""
    """Why, in words."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the look before training."""


def record_of(text: str) -> AttemptRecord:
    """The record in a line."""
    data: dict[str, Any] = json.loads(text)
    outcome = data.pop("outcome", None)
    lists = {"excluded_nodes", "faulty_nodes"}
    # A newer Seatrial may have written more than this one knows.
    known: dict[str, Any] = {
        key: tuple(data[key]) if key in lists else data[key]
        for key in AttemptRecord.__dataclass_fields__
        if key in data
    }
    return AttemptRecord(**known, outcome=Outcome(outcome) if outcome else None)


@dataclass(frozen=True, slots=True)
class Ledger:
    """All attempts of a run, in order."""

    attempts: tuple[AttemptRecord, ...] = ()
    """The attempts."""

    @property
    def newest(self) -> AttemptRecord | None:
        """The last attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def next_number(self) -> int:
        """The number of the attempt to come."""
        return self.attempts[-1].number + 1 if self.attempts else 1

    def attempt(self, number: int) -> AttemptRecord | None:
        """The attempt of that number."""
        return next((a for a in self.attempts if a.number == number), None)

    def nodes_to_avoid(self) -> tuple[str, ...]:
        """The nodes that the next attempt stays away from; the newest one's, and those it found."""
        if self.newest is None:
            return ()
        return tuple(dict.fromkeys((*self.newest.excluded_nodes, *self.newest.faulty_nodes)))


class AttemptTakenError(Exception):
    """Another call has begun an attempt of this number."""
