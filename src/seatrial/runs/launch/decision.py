# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a launch does, decided from what there is; nothing is asked and nothing changed here."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from seatrial.runs.ledger.ledger import AttemptOutcome, End, Ledger, utc
from seatrial.runs.status.observe import JobState


class LaunchStep(StrEnum):
    """What a launch does."""

    NOTHING = "nothing"
    """The run is there as it should be."""
    SUBMIT = "submit"
    """A new attempt."""


@dataclass(frozen=True, slots=True)
class LaunchDecision:
    """What a launch does, and why."""

    step: LaunchStep
    number: int
    """The attempt that there is, or that there will be."""
    why: str
    """The reason, in words."""
    asks: bool = False
    """Whether the spec has changed, so that the user has to agree."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that the new attempt stays away from."""
    ended: End | None = None
    """How the attempt before ended, to be noted first."""
    is_begun: bool = False
    """Whether the attempt stands in the ledger already, from a launch that has not ended."""


@dataclass(frozen=True, slots=True)
class ActiveAttempt:
    """An attempt whose job is in the cluster, or whose supervisor runs on this host."""

    number: int
    state: JobState
    end: End | None = None
    """How it ended; None while it goes on."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the look before training."""


@dataclass(frozen=True, slots=True)
class LaunchPhrases:
    """How a backend calls an attempt that is over; `{number}` and `{outcome}` are filled in."""

    succeeded: str
    ended: str
    gone: str
    gone_reason: str
    """What the ledger says of an attempt of which nothing is left."""
    changed_fix: str
    """What to do about a changed spec."""


ON_CLUSTER = LaunchPhrases(
    "it has succeeded, and its job is gone since",
    "attempt {number} {outcome}",
    "the job of attempt {number} is gone",
    "its job was gone",
    "Let the new one take its place by --yes (it goes on from the last checkpoint), or give the "
    "run another name.",
)
ON_HOST = LaunchPhrases(
    "it has succeeded",
    "attempt {number} has ended",
    "attempt {number} has ended",
    "",
    "Let the new one take its place by --yes, or give the run another name.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAttempts:
    """What there is of a run before a launch, as its backend finds it."""

    ledger: Ledger
    is_changed: bool
    """True if the newest attempt was launched with another spec."""
    phrases: LaunchPhrases
    kind: str = ""
    """The kind of its job; empty without one."""
    active: ActiveAttempt | None = None
    is_being_submitted: bool = False
    """True if another launch may still be submitting the newest attempt."""


def decide(found: FoundAttempts, now: datetime) -> LaunchDecision:
    """What launching does to a run of which this was found."""
    if found.active is not None:
        return _with_active(found, found.active, now)
    newest, number = found.ledger.newest, found.ledger.next_number
    if newest is None:
        return LaunchDecision(LaunchStep.SUBMIT, 1, "it is new")
    if newest.outcome is AttemptOutcome.SUCCEEDED and not found.is_changed:
        # A job goes away some time after its end; that all steps are done stays.
        return LaunchDecision(LaunchStep.NOTHING, newest.number, found.phrases.succeeded)
    avoid = found.ledger.nodes_to_avoid()
    if newest.outcome is not None:
        why = found.phrases.ended.format(number=newest.number, outcome=newest.outcome)
        return LaunchDecision(LaunchStep.SUBMIT, number, why, found.is_changed, avoid)
    if found.is_being_submitted and not found.is_changed:
        why = f"attempt {newest.number} was begun and has no job yet"
        excluded = newest.excluded_nodes
        return LaunchDecision(
            LaunchStep.SUBMIT, newest.number, why, excluded_nodes=excluded, is_begun=True
        )
    ended = End(utc(now), AttemptOutcome.GONE, found.phrases.gone_reason)
    why = found.phrases.gone.format(number=newest.number)
    return LaunchDecision(LaunchStep.SUBMIT, number, why, found.is_changed, avoid, ended)


def _with_active(found: FoundAttempts, active: ActiveAttempt, now: datetime) -> LaunchDecision:
    state, changed = active.state, found.is_changed
    if not changed and state is JobState.SUCCEEDED:
        return LaunchDecision(LaunchStep.NOTHING, active.number, "it has succeeded")
    if not changed and state not in (JobState.FAILED, JobState.ENDING):
        return LaunchDecision(LaunchStep.NOTHING, active.number, f"it is {state}")
    ended = active.end
    if ended is None:
        outcome = AttemptOutcome.STOPPED if state is JobState.ENDING else AttemptOutcome.REPLACED
        reason = "its spec changed" if changed else ""
        ended = End(utc(now), outcome, reason, active.faulty_nodes)
    record = found.ledger.attempt(active.number)
    known = record.excluded_nodes if record else ()
    return LaunchDecision(
        LaunchStep.SUBMIT,
        max(found.ledger.next_number, active.number + 1),
        found.phrases.ended.format(number=active.number, outcome=ended.outcome),
        changed,
        tuple(dict.fromkeys((*known, *ended.faulty_nodes))),
        ended,
    )
