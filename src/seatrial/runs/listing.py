# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""All runs of a namespace, or of a directory on this host, each in a line."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from seatrial.cluster import objects
from seatrial.cluster.errors import DeniedError, NotServedError
from seatrial.cluster.kinds import POD
from seatrial.cluster.served import JOB_KINDS
from seatrial.cluster.transport import Json
from seatrial.rendering.names import ATTEMPT_LABEL, COMPONENT_LABEL, RUN_LABEL, Component
from seatrial.runs.job_state import job_state, wanted_pods
from seatrial.runs.ledger import Ledger
from seatrial.runs.local_launch import KIND, status_here
from seatrial.runs.local_ledger import LocalRun, local_runs
from seatrial.runs.pod_reasons import is_running
from seatrial.runs.site import Site
from seatrial.runs.status import state_without_job


@dataclass(frozen=True, slots=True)
class Line:
    """One run."""

    run: str
    """Its name."""
    state: str
    """Its job's state, or how the last attempt ended."""
    attempt: int
    """The newest attempt."""
    pods: str
    """Pods that run, of those that there should be; empty without a job."""
    kind: str
    """The kind of its job, torchrun on this host; empty without one."""
    submitted: str
    """When the newest attempt was submitted, in UTC."""


def list_runs(site: Site) -> list[Line]:
    """The runs of a namespace: those with a job, and those that have only their ledger."""
    ledgers = site.ledgers.read_all()
    pods, _ = objects.list_all(
        site.api, POD, site.namespace, f"{RUN_LABEL},{COMPONENT_LABEL}={Component.TRAINING}"
    )
    now = site.now
    lines = {run: _ended(run, ledger, now) for run, ledger in ledgers.items() if ledger.attempts}
    for kind in JOB_KINDS.values():
        try:
            jobs, _ = objects.list_all(site.api, kind, site.namespace, RUN_LABEL)
        except (DeniedError, NotServedError):
            continue
        for job in jobs:
            line = _running(job, pods, ledgers.get(job["metadata"]["name"]))
            lines[line.run] = line
    return newest_first([*lines.values()])


def list_here(directory: Path) -> list[Line]:
    """The runs on this host whose specs are in a directory."""
    return [_here(run) for run in local_runs(directory).values()]


def _here(run: LocalRun) -> Line:
    """One of them; damage to its record must not hide the others."""
    try:
        one = status_here(run)
    except (OSError, ValueError, KeyError, TypeError):
        return Line(run.name, "unreadable", 0, "", KIND, "")
    return Line(one.run, one.state, one.attempt, "", KIND, one.submitted)


def newest_first(lines: list[Line]) -> list[Line]:
    """Runs by when they were submitted last."""
    return sorted(lines, key=lambda line: line.submitted, reverse=True)


def _running(job: Json, pods: list[Json], ledger: Ledger | None) -> Line:
    head = job["metadata"]
    attempt = head["labels"].get(ATTEMPT_LABEL, "0")
    own = [
        pod
        for pod in pods
        if pod["metadata"]["labels"].get(RUN_LABEL) == head["name"]
        and pod["metadata"]["labels"].get(ATTEMPT_LABEL) == attempt
    ]
    wanted, running = wanted_pods(job), sum(map(is_running, own))
    record = ledger.attempt(int(attempt)) if ledger else None
    submitted = record.submitted if record else str(head.get("creationTimestamp") or "")
    state = job_state(job, running, wanted)
    return Line(
        head["name"], str(state), int(attempt), f"{running}/{wanted}", job["kind"], submitted
    )


def _ended(run: str, ledger: Ledger, now: datetime) -> Line:
    newest = ledger.attempts[-1]
    state = state_without_job(newest, now)
    return Line(run, state, newest.number, "", "", newest.submitted)
