# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a launch does, decided from what there is; nothing is changed here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from seatrial.cluster.transport import Json
from seatrial.codes.preflight import PreflightCode
from seatrial.errors import FindingsError
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End
from seatrial.runs.ownership import not_ours
from seatrial.runs.status.container_reasons import node_of, preflight_findings
from seatrial.runs.status.observe import FoundJob, JobState, Observed, end_of, job_state
from seatrial.runs.status.pending_reasons import operator_message, wanted_and_running

OWN_FAULTS = (PreflightCode.GPUS, PreflightCode.DEVICES)
"""Findings that are about one node whatever the others have: the hardware is the node's own."""
COMPARED_FAULTS = (
    PreflightCode.MOUNT,
    PreflightCode.CLOCK,
    PreflightCode.NOT_SHARED,
    PreflightCode.SUM,
)
"""Findings that are about one node when others do not have them."""
NODE_FAULTS = (*OWN_FAULTS, *COMPARED_FAULTS)
"""Findings that can be about one node. Room on the volume and the size of shared memory are the
run's, and `TOGETHER` says of a healthy node that another one has findings."""


def faulty_nodes(pods: Sequence[Json]) -> tuple[str, ...]:
    """The nodes with a fault of their own; a volume or clock that all share is not the nodes'."""
    nodes = {node_of(pod) for pod in pods} - {""}
    by_code: dict[str, set[str]] = {}
    for pod in pods:
        for finding in preflight_findings(pod):
            if finding.code in NODE_FAULTS and node_of(pod):
                by_code.setdefault(finding.code, set()).add(node_of(pod))
    # On one node only its own GPUs have added up.
    own = {*OWN_FAULTS, PreflightCode.SUM} if len(nodes) == 1 else set(OWN_FAULTS)
    faulty = (found for code, found in by_code.items() if code in own or found != nodes)
    return tuple(sorted({name for found in faulty for name in found}))


SUBMITTING_SECONDS = 300
"""For so long after an attempt was begun, a missing job means that it is being submitted."""


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


def state_of(observed: Observed) -> JobState | None:
    """The state of a run's job; nothing without one."""
    if observed.job is None:
        return None
    wanted, running = wanted_and_running(observed)
    return job_state(observed.job.object, running, wanted)


def decide(observed: Observed, spec_digest: str, now: datetime) -> LaunchDecision:
    """What launching a spec does to a run that is as observed."""
    if observed.job is not None:
        return _with_job(observed, observed.job, spec_digest, now)
    newest = observed.ledger.newest
    number = observed.ledger.next_number
    if newest is None:
        return LaunchDecision(LaunchStep.SUBMIT, 1, "it is new")
    changed = newest.spec_digest != spec_digest
    if newest.outcome is AttemptOutcome.SUCCEEDED and not changed:
        # Its job goes away some time after its end; that all steps are done stays.
        why = "it has succeeded, and its job is gone since"
        return LaunchDecision(LaunchStep.NOTHING, newest.number, why)
    avoid = observed.ledger.nodes_to_avoid()
    if newest.outcome is not None:
        why = f"attempt {newest.number} {newest.outcome}"
        return LaunchDecision(LaunchStep.SUBMIT, number, why, changed, avoid)
    if not changed and is_being_submitted(newest, now):
        why = f"attempt {newest.number} was begun and has no job yet"
        excluded = newest.excluded_nodes
        return LaunchDecision(
            LaunchStep.SUBMIT, newest.number, why, excluded_nodes=excluded, is_begun=True
        )
    ended = End(utc(now), AttemptOutcome.GONE, "its job was gone")
    why = f"the job of attempt {newest.number} is gone"
    return LaunchDecision(LaunchStep.SUBMIT, number, why, changed, avoid, ended)


def _with_job(observed: Observed, job: FoundJob, spec_digest: str, now: datetime) -> LaunchDecision:
    refuse_foreign(observed)
    state = state_of(observed)
    changed = job.spec_digest != spec_digest
    if not changed and state is JobState.SUCCEEDED:
        return LaunchDecision(LaunchStep.NOTHING, job.attempt, "it has succeeded")
    if not changed and state not in (JobState.FAILED, JobState.ENDING):
        return LaunchDecision(LaunchStep.NOTHING, job.attempt, f"it is {state}")
    ended = end_of_attempt(observed, now)
    if ended is None:
        outcome = AttemptOutcome.STOPPED if state is JobState.ENDING else AttemptOutcome.REPLACED
        faulty = faulty_nodes(observed.pods)
        ended = End(utc(now), outcome, "its spec changed" if changed else "", faulty)
    record = observed.ledger.attempt(job.attempt)
    known = record.excluded_nodes if record else ()
    return LaunchDecision(
        LaunchStep.SUBMIT,
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
    outcome = AttemptOutcome.SUCCEEDED if state is JobState.SUCCEEDED else AttemptOutcome.FAILED
    reason = "" if outcome is AttemptOutcome.SUCCEEDED else why_failed(observed)
    return End(when or utc(now), outcome, reason, faulty_nodes(observed.pods))


def why_failed(observed: Observed) -> str:
    """Why an attempt failed, in a sentence: what pods say, else what the operator says."""
    for pod in observed.pods:
        # That others have findings is the reason only when nobody says which.
        own = [f for f in preflight_findings(pod) if f.code != PreflightCode.TOGETHER]
        if own:
            return f"{own[0].code} {own[0].where}: {own[0].rule}"
    return operator_message(observed)


def refuse_foreign(observed: Observed) -> None:
    """Raise when the job of that name was not launched by Seatrial: nobody may touch it."""
    job = observed.job
    if job is not None and not job.is_ours:
        raise FindingsError([not_ours(job.kind, observed.namespace, job.object, observed.run)])


def begun(
    decision: LaunchDecision,
    submission: str,
    operator: str,
    digests: tuple[str, str, str],
    now: datetime,
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
