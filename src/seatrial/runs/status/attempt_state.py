# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The state of an attempt in a cluster: its job's state, its end, and its faulty nodes."""

from collections.abc import Sequence
from datetime import datetime

from seatrial.cluster.transport import Json
from seatrial.codes.preflight import PreflightCode
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End, utc
from seatrial.runs.status.container_reasons import node_of, preflight_findings
from seatrial.runs.status.observe import JobState, Observed, end_of, job_state
from seatrial.runs.status.pending_reasons import operator_message, wanted_and_running

OWN_FAULTS = (
    PreflightCode.GPUS,
    PreflightCode.DEVICES,
    PreflightCode.MEMORY,
    PreflightCode.GPU_ERRORS,
)
"""Findings that always concern one node, because they are about its hardware."""
COMPARED_FAULTS = (
    PreflightCode.MOUNT,
    PreflightCode.CLOCK,
    PreflightCode.NOT_SHARED,
    PreflightCode.SUM,
    PreflightCode.SLOW_NETWORK,
    PreflightCode.SLOW_DEVICE,
    PreflightCode.SLOW_VOLUME,
    PreflightCode.VERSIONS,
)
"""Findings that concern one node if other nodes do not have them."""
NODE_FAULTS = (*OWN_FAULTS, *COMPARED_FAULTS)
"""Findings that can concern one node. Free space on the volume and the size of shared memory belong
to the run. `TOGETHER` on a healthy node means that another node has findings."""


def faulty_nodes(pods: Sequence[Json]) -> tuple[str, ...]:
    """Return the nodes with a fault. A fault that all nodes share is not attributed to them."""
    nodes = {node_of(pod) for pod in pods} - {""}
    by_code: dict[str, set[str]] = {}
    for pod in pods:
        for finding in preflight_findings(pod):
            if finding.code in NODE_FAULTS and node_of(pod):
                by_code.setdefault(finding.code, set()).add(node_of(pod))
    # On a single node, only its own GPUs took part in the all-reduce.
    own = {*OWN_FAULTS, PreflightCode.SUM} if len(nodes) == 1 else set(OWN_FAULTS)
    faulty = (found for code, found in by_code.items() if code in own or found != nodes)
    return tuple(sorted({name for found in faulty for name in found}))


SUBMITTING_SECONDS = 300
"""A recorded attempt without a job counts as being submitted for this long."""


def state_of(observed: Observed) -> JobState | None:
    """Return the state of a run's job, or None without one."""
    if observed.job is None:
        return None
    wanted, running = wanted_and_running(observed)
    return job_state(observed.job.object, running, wanted)


def end_of_attempt(observed: Observed, now: datetime) -> End | None:
    """Return the end of the current job's attempt, or None while it is active."""
    state = state_of(observed)
    if observed.job is None or state is None or not state.is_over:
        return None
    when, _ = end_of(observed.job.object)
    outcome = AttemptOutcome.SUCCEEDED if state is JobState.SUCCEEDED else AttemptOutcome.FAILED
    reason = "" if outcome is AttemptOutcome.SUCCEEDED else why_failed(observed)
    return End(when or utc(now), outcome, reason, faulty_nodes(observed.pods))


def why_failed(observed: Observed) -> str:
    """Explain why an attempt failed, from its pods or from the operator."""
    for pod in observed.pods:
        # Another node's findings are the reason only if no pod reports its own.
        own = [f for f in preflight_findings(pod) if f.code != PreflightCode.TOGETHER]
        if own:
            return f"{own[0].code} {own[0].where}: {own[0].rule}"
    return operator_message(observed)


def is_being_submitted(attempt: AttemptRecord, now: datetime) -> bool:
    """True if an attempt without a job is so new that its launch may still be running."""
    return _seconds_since(attempt.submitted, now) < SUBMITTING_SECONDS


def _seconds_since(when: str, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(when)).total_seconds()
    except ValueError:
        return float("inf")
