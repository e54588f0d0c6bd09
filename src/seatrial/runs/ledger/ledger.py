# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The ledger of a run: every attempt, when it began, what it was, how it ended."""

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum

from seatrial.codes.runs import RunCode
from seatrial.findings import Finding, Severity, Where
from seatrial.secrets.redaction import redact
from seatrial.storage.state_files import DamagedError, decode, parse_json


class AttemptOutcome(StrEnum):
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
    outcome: AttemptOutcome | None = None
    reason: str = ""
    """Why, in words."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the look before training; the next attempt stays away from them."""

    def __post_init__(self) -> None:
        """Redact the reason: it may repeat what a pod or the cluster has said."""
        object.__setattr__(self, "reason", redact(self.reason))

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
    outcome: AttemptOutcome
    reason: str = ""
    """Why, in words."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the look before training."""


def record_of(text: str | bytes, number: int) -> AttemptRecord:
    """The record of an attempt in a line; raises DamagedError."""
    record = decode(AttemptRecord, parse_json(text))
    if record.number != number:
        raise DamagedError(f"it is the record of attempt {record.number}, not of {number}")
    refuse_bad_time(record.submitted, "submitted")
    if record.ended:
        refuse_bad_time(record.ended, "ended")
    return record


def end_of_text(text: str | bytes) -> End:
    """The end of an attempt in a line; raises DamagedError."""
    end = decode(End, parse_json(text))
    refuse_bad_time(end.when, "when")
    return end


def refuse_bad_time(text: str, field: str) -> None:
    """Raise DamagedError if a text is not a time with its time zone."""
    try:
        known = datetime.fromisoformat(text).utcoffset() is not None
    except ValueError:
        known = False
    if not known:
        raise DamagedError(f"{field} is {redact(text)[:40]!r}, which is not a time in UTC")


def utc(now: datetime) -> str:
    """A time as ledgers have it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def without_record(number: int, operator: str = "") -> AttemptRecord:
    """What stands for an attempt whose record is damaged: nothing but its number is known."""
    return AttemptRecord(number, "", "", operator, "")


def damaged(where: str, error: DamagedError, fix: str) -> Finding:
    """The finding about state that cannot be used."""
    return Finding(
        RunCode.DAMAGED,
        Severity.WARNING,
        Where(file=where),
        f"this state of the run is damaged: {error}. It is left out.",
        "",
        fix,
    )


@dataclass(frozen=True, slots=True)
class Ledger:
    """All attempts of a run, in order."""

    attempts: tuple[AttemptRecord, ...] = ()
    """The attempts; of one whose record is damaged only the number is known."""
    damage: tuple[Finding, ...] = ()
    """One finding for each record or end that cannot be used."""
    unknown: frozenset[int] = frozenset()
    """The attempts whose records are damaged."""

    @property
    def is_empty(self) -> bool:
        """True if nothing was ever written, damaged or not."""
        return not (self.attempts or self.damage)

    @property
    def newest(self) -> AttemptRecord | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def next_number(self) -> int:
        """The number of the attempt to come."""
        return self.attempts[-1].number + 1 if self.attempts else 1

    def is_known(self, number: int) -> bool:
        """True if the record of an attempt can be read."""
        return number not in self.unknown and self.attempt(number) is not None

    def attempt(self, number: int) -> AttemptRecord | None:
        return next((a for a in self.attempts if a.number == number), None)

    def nodes_to_avoid(self) -> tuple[str, ...]:
        """The nodes that the next attempt stays away from; the newest one's, and those it found."""
        if self.newest is None:
            return ()
        return tuple(dict.fromkeys((*self.newest.excluded_nodes, *self.newest.faulty_nodes)))


class AttemptTakenError(Exception):
    """Another call has begun an attempt of this number."""
