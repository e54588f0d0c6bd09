# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Decide what a launch does from the current state. Pure: no I/O."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from seatrial.runs.ledger.ledger import AttemptOutcome, End, Ledger, utc
from seatrial.runs.status.observe import JobState


class LaunchStep(StrEnum):
    """The action of a launch."""

    NOTHING = "nothing"
    """The run already exists as specified."""
    SUBMIT = "submit"
    """Submit a new attempt."""


@dataclass(frozen=True, slots=True)
class LaunchDecision:
    """The action of a launch and its reason."""

    step: LaunchStep
    number: int
    """The number of the existing or the new attempt."""
    why: str
    asks: bool = False
    """True if the spec changed, so that the user must confirm."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that the new attempt avoids."""
    ended: End | None = None
    """The end of the previous attempt, to be recorded first."""
    is_begun: bool = False
    """True if an interrupted launch has already recorded the attempt in the ledger."""


@dataclass(frozen=True, slots=True)
class ActiveAttempt:
    """An attempt whose job is in the cluster, or whose supervisor runs on this host."""

    number: int
    state: JobState
    end: End | None = None
    """None while it is active."""
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that failed the preflight check."""


@dataclass(frozen=True, slots=True)
class LaunchPhrases:
    """A backend's phrases for ended attempts, with `{number}` and `{outcome}` placeholders."""

    succeeded: str
    ended: str
    gone: str
    gone_reason: str
    """The reason in the ledger for an attempt that disappeared."""
    changed_fix: str
    """The fix for a changed spec."""


ON_CLUSTER = LaunchPhrases(
    "it succeeded, and its job has since been removed",
    "attempt {number} {outcome}",
    "the job of attempt {number} no longer exists",
    "its job disappeared",
    "Replace the launched run with --yes (it continues from the last checkpoint), or rename this "
    "run.",
)
ON_HOST = LaunchPhrases(
    "it succeeded",
    "attempt {number} is no longer running",
    "attempt {number} is no longer running",
    "",
    "Replace the launched run with --yes, or rename this run.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAttempts:
    """The attempts of a run before a launch, as its backend finds them."""

    ledger: Ledger
    is_changed: bool
    """True if the newest attempt was launched with a different spec."""
    phrases: LaunchPhrases
    kind: str = ""
    """The kind of its job. Empty without one."""
    active: ActiveAttempt | None = None
    is_being_submitted: bool = False


def decide(found: FoundAttempts, now: datetime) -> LaunchDecision:
    """Decide what a launch does."""
    if found.active is not None:
        return _with_active(found, found.active, now)
    newest, number = found.ledger.newest, found.ledger.next_number
    if newest is None:
        return LaunchDecision(LaunchStep.SUBMIT, 1, "it is new")
    if newest.outcome is AttemptOutcome.SUCCEEDED and not found.is_changed:
        # The job is removed some time after it finishes, but the ledger still records the success.
        return LaunchDecision(LaunchStep.NOTHING, newest.number, found.phrases.succeeded)
    avoid = found.ledger.nodes_to_avoid()
    if newest.outcome is not None:
        why = found.phrases.ended.format(number=newest.number, outcome=newest.outcome)
        return LaunchDecision(LaunchStep.SUBMIT, number, why, found.is_changed, avoid)
    if found.is_being_submitted and not found.is_changed:
        why = f"attempt {newest.number} was started but has no job yet"
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
        return LaunchDecision(LaunchStep.NOTHING, active.number, "it succeeded")
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
