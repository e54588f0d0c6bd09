# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a launch does, decided from what there is; nothing is changed here."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.rendering.names import RUN_LABEL
from seatrial.runs.codes import RunCode
from seatrial.runs.faulty_nodes import faulty_nodes
from seatrial.runs.job_state import JobState, end_of, job_state
from seatrial.runs.ledger import AttemptRecord, End, Outcome
from seatrial.runs.observe import FoundJob, Observed
from seatrial.runs.pod_reasons import preflight_findings
from seatrial.runs.reasons import operator_message, wanted_and_running

SUBMITTING_SECONDS = 300
"""For so long after an attempt was begun, a missing job means that it is being submitted."""


class Step(StrEnum):
    """What a launch does."""

    NOTHING = "nothing"
    """The run is there as it should be."""
    SUBMIT = "submit"
    """A new attempt."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a launch does, and why."""

    step: Step
    """What it does."""
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


def state_of(observed: Observed) -> JobState | None:
    """The state of a run's job; nothing without one."""
    if observed.job is None:
        return None
    wanted, running = wanted_and_running(observed)
    return job_state(observed.job.object, running, wanted)


def decide(observed: Observed, spec_digest: str, now: datetime) -> Decision:
    """What launching a spec does to a run that is as observed."""
    if observed.job is not None:
        return _with_job(observed, observed.job, spec_digest, now)
    newest = observed.ledger.newest
    number = observed.ledger.next_number
    if newest is None:
        return Decision(Step.SUBMIT, 1, "it is new")
    changed = newest.spec_digest != spec_digest
    if newest.outcome is Outcome.SUCCEEDED and not changed:
        # Its job goes away some time after its end; that all steps are done stays.
        why = "it has succeeded, and its job is gone since"
        return Decision(Step.NOTHING, newest.number, why)
    avoid = observed.ledger.nodes_to_avoid()
    if newest.outcome is not None:
        why = f"attempt {newest.number} {newest.outcome}"
        return Decision(Step.SUBMIT, number, why, changed, avoid)
    if not changed and is_being_submitted(newest, now):
        why = f"attempt {newest.number} was begun and has no job yet"
        excluded = newest.excluded_nodes
        return Decision(Step.SUBMIT, newest.number, why, excluded_nodes=excluded, is_begun=True)
    ended = End(utc(now), Outcome.GONE, "its job was gone")
    why = f"the job of attempt {newest.number} is gone"
    return Decision(Step.SUBMIT, number, why, changed, avoid, ended)


def _with_job(observed: Observed, job: FoundJob, spec_digest: str, now: datetime) -> Decision:
    refuse_foreign(observed)
    state = state_of(observed)
    changed = job.spec_digest != spec_digest
    if not changed and state is JobState.SUCCEEDED:
        return Decision(Step.NOTHING, job.attempt, "it has succeeded")
    if not changed and state not in (JobState.FAILED, JobState.ENDING):
        return Decision(Step.NOTHING, job.attempt, f"it is {state}")
    ended = end_of_attempt(observed, now)
    if ended is None:
        outcome = Outcome.STOPPED if state is JobState.ENDING else Outcome.REPLACED
        faulty = faulty_nodes(observed.pods)
        ended = End(utc(now), outcome, "its spec changed" if changed else "", faulty)
    record = observed.ledger.attempt(job.attempt)
    known = record.excluded_nodes if record else ()
    return Decision(
        Step.SUBMIT,
        max(observed.ledger.next_number, job.attempt + 1),
        f"attempt {job.attempt} {ended.outcome}",
        changed,
        tuple(dict.fromkeys((*known, *ended.faulty_nodes))),
        ended,
    )


def end_of_attempt(observed: Observed, now: datetime) -> End | None:
    """How the attempt of the job that is there ended; nothing while it goes on."""
    state = state_of(observed)
    if observed.job is None or state is None or not state.is_over:
        return None
    when, _ = end_of(observed.job.object)
    outcome = Outcome.SUCCEEDED if state is JobState.SUCCEEDED else Outcome.FAILED
    reason = "" if outcome is Outcome.SUCCEEDED else why_failed(observed)
    return End(when or utc(now), outcome, reason, faulty_nodes(observed.pods))


def why_failed(observed: Observed) -> str:
    """Why an attempt failed, in a sentence: what pods say, else what the operator says."""
    for pod in observed.pods:
        # That others have findings is the reason only when nobody says which.
        own = [f for f in preflight_findings(pod) if f.code != "ST-PREFLIGHT-006"]
        if own:
            return f"{own[0].code} {own[0].where}: {own[0].rule}"
    return operator_message(observed)


def refuse_foreign(observed: Observed) -> None:
    """Raise when the job of that name was not launched by Seatrial: nobody may touch it."""
    job = observed.job
    if job is None:
        return
    if job.labels.get(RUN_LABEL) != observed.run or not job.spec_digest:
        raise FindingsError([_not_ours(observed, job)])


def _not_ours(observed: Observed, job: FoundJob) -> Finding:
    return Finding(
        RunCode.NOT_OURS,
        Severity.ERROR,
        Where(field=f"{job.kind.name} {observed.namespace}/{observed.run}"),
        "a job of this name exists that Seatrial has not launched.",
        observed.run,
        "Give the run another name, or let the owner of that job delete it.",
    )


def begun(
    decision: Decision, submission: str, operator: str, digests: tuple[str, str, str], now: datetime
) -> AttemptRecord:
    """The record of an attempt that begins: digests of spec, plan and code."""
    return AttemptRecord(
        decision.number, submission, utc(now), operator, *digests, decision.excluded_nodes
    )


def utc(now: datetime) -> str:
    """A time as ledgers have it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_being_submitted(attempt: AttemptRecord, now: datetime) -> bool:
    """Whether an attempt without a job is so new that its launch may still be at work."""
    return _seconds_since(attempt.submitted, now) < SUBMITTING_SECONDS


def _seconds_since(when: str, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(when)).total_seconds()
    except ValueError:
        return float("inf")
