# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The ledger of a run: every attempt with its start, its inputs and its outcome."""

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum

from seatrial.codes.runs import RunCode
from seatrial.findings import Finding, Severity, Where
from seatrial.rendering.attempt import GangChoice, GangScheduler
from seatrial.secrets.redaction import redact
from seatrial.storage.state_files import DamagedError, decode, parse_json


class AttemptOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    """All steps are done."""
    FAILED = "failed"
    """It failed after all restarts."""
    STOPPED = "stopped"
    """A user stopped it."""
    REPLACED = "replaced"
    """A different spec replaced it."""
    GONE = "gone"
    """Its job disappeared without a recorded end."""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """The record of one attempt."""

    number: int
    """Starts at 1."""
    submission: str
    """The id of the call that started it."""
    submitted: str
    """The submission time in UTC."""
    operator: str
    spec_digest: str
    plan_digest: str = ""
    code_digest: str = ""
    """The digest of the Seatrial code that rendered it."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that it avoids."""
    ended: str = ""
    """The end time in UTC. Empty if no end is recorded."""
    outcome: AttemptOutcome | None = None
    reason: str = ""
    """The reason for the outcome."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the preflight check. The next attempt avoids them."""
    gang: str = ""
    """The gang scheduler that the launch used, such as `kueue`; empty in older ledgers and on this
    host."""
    queue: str = ""
    """Kueue's local queue; empty for other gang schedulers."""

    def __post_init__(self) -> None:
        """Redact the reason, which may quote a pod or the cluster."""
        object.__setattr__(self, "reason", redact(self.reason))

    @property
    def gang_choice(self) -> GangChoice | None:
        """The gang scheduler for rendering; None if the record has none."""
        known = self.gang in set(GangScheduler)
        return GangChoice(GangScheduler(self.gang), self.queue) if known else None

    def to_text(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def finished(self, end: "End") -> "AttemptRecord":
        """Add the end to the record. An existing end is kept."""
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
    """The end of an attempt."""

    when: str
    """The time in UTC."""
    outcome: AttemptOutcome
    reason: str = ""
    """The reason for the outcome."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the preflight check."""


def record_of(text: str | bytes, number: int) -> AttemptRecord:
    """Parse the record of an attempt. Raises DamagedError."""
    record = decode(AttemptRecord, parse_json(text))
    if record.number != number:
        raise DamagedError(f"it is the record of attempt {record.number}, not of {number}")
    refuse_bad_time(record.submitted, "submitted")
    if record.ended:
        refuse_bad_time(record.ended, "ended")
    return record


def end_of_text(text: str | bytes) -> End:
    """Parse the end of an attempt. Raises DamagedError."""
    end = decode(End, parse_json(text))
    refuse_bad_time(end.when, "when")
    return end


def refuse_bad_time(text: str, field: str) -> None:
    """Raise DamagedError unless the text is a time with a time zone."""
    try:
        known = datetime.fromisoformat(text).utcoffset() is not None
    except ValueError:
        known = False
    if not known:
        raise DamagedError(f"{field} is {redact(text)[:40]!r}, not a time in UTC")


def utc(now: datetime) -> str:
    """Format a time for a ledger."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def without_record(number: int, operator: str = "") -> AttemptRecord:
    """Return a placeholder for an attempt with a damaged record. Only its number is known."""
    return AttemptRecord(number, "", "", operator, "")


def damaged(where: str, error: DamagedError, fix: str) -> Finding:
    """Return the finding for damaged state."""
    return Finding(
        RunCode.DAMAGED,
        Severity.WARNING,
        Where(file=where),
        f"this part of the run's state is damaged and is ignored: {error}.",
        "",
        fix,
    )


@dataclass(frozen=True, slots=True)
class Ledger:
    attempts: tuple[AttemptRecord, ...] = ()
    """In order. For a damaged record, only the number is known."""
    damage: tuple[Finding, ...] = ()
    """One finding per damaged record or end."""
    unknown: frozenset[int] = frozenset()
    """The attempts with damaged records."""

    @property
    def is_empty(self) -> bool:
        """True if there are no records, damaged or not."""
        return not (self.attempts or self.damage)

    @property
    def newest(self) -> AttemptRecord | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def next_number(self) -> int:
        """The number of the next attempt."""
        return self.attempts[-1].number + 1 if self.attempts else 1

    def is_known(self, number: int) -> bool:
        """True if the record of an attempt is readable."""
        return number not in self.unknown and self.attempt(number) is not None

    def attempt(self, number: int) -> AttemptRecord | None:
        return next((a for a in self.attempts if a.number == number), None)

    def nodes_to_avoid(self) -> tuple[str, ...]:
        """Return the nodes that the next attempt avoids: excluded before, or newly faulty."""
        if self.newest is None:
            return ()
        return tuple(dict.fromkeys((*self.newest.excluded_nodes, *self.newest.faulty_nodes)))


class AttemptTakenError(Exception):
    """Another call has started an attempt with this number."""
