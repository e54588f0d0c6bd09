# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster shows of an attempt: its state, how it ended, and which nodes are to blame."""

from collections.abc import Sequence
from datetime import datetime

from seatrial.cluster.transport import Json
from seatrial.codes.preflight import PreflightCode
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End, utc
from seatrial.runs.status.container_reasons import node_of, preflight_findings
from seatrial.runs.status.observe import JobState, Observed, end_of, job_state
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


def state_of(observed: Observed) -> JobState | None:
    """The state of a run's job; nothing without one."""
    if observed.job is None:
        return None
    wanted, running = wanted_and_running(observed)
    return job_state(observed.job.object, running, wanted)


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


def is_being_submitted(attempt: AttemptRecord, now: datetime) -> bool:
    """Whether an attempt without a job is so new that its launch may still be at work."""
    return _seconds_since(attempt.submitted, now) < SUBMITTING_SECONDS


def _seconds_since(when: str, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(when)).total_seconds()
    except ValueError:
        return float("inf")
