# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""List the runs in a namespace, or in a directory on this host."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from seatrial.cluster import objects
from seatrial.cluster.discovery import JOB_KINDS
from seatrial.cluster.errors import DeniedError, NotServedError
from seatrial.cluster.kinds import POD
from seatrial.cluster.transport import Json
from seatrial.findings import Finding
from seatrial.rendering.names import ATTEMPT_LABEL, COMPONENT_LABEL, RUN_LABEL, Component
from seatrial.runs.ledger.host import KIND, local_runs
from seatrial.runs.ledger.ledger import Ledger, without_record
from seatrial.runs.namespace import Site
from seatrial.runs.status.container_reasons import is_running
from seatrial.runs.status.observe import attempt_number, job_state, wanted_pods
from seatrial.runs.status.status import state_without_job, status_here


@dataclass(frozen=True, slots=True)
class RunLine:
    run: str
    state: str
    """The job's state, or the outcome of the last attempt."""
    attempt: int
    pods: str
    """Running and wanted pods, as `1/2`. Empty without a job."""
    kind: str
    """The kind of its job, or torchrun on this host. Empty without a job."""
    submitted: str
    """The submission time of the newest attempt, in UTC."""
    findings: tuple[Finding, ...] = ()
    """Damaged state of the run."""


def list_runs(site: Site) -> list[RunLine]:
    """List the runs in a namespace: with a job, or only with a ledger."""
    ledgers = site.ledgers.read_all()
    pods, _ = objects.list_all(
        site.api, POD, site.namespace, f"{RUN_LABEL},{COMPONENT_LABEL}={Component.TRAINING}"
    )
    now = site.now
    lines = {
        run: _ended(run, ledger, now) for run, ledger in ledgers.items() if not ledger.is_empty
    }
    for kind in JOB_KINDS.values():
        try:
            jobs, _ = objects.list_all(site.api, kind, site.namespace, RUN_LABEL)
        except (DeniedError, NotServedError):
            continue
        for job in jobs:
            line = _running(job, pods, ledgers.get(job["metadata"]["name"], Ledger()))
            lines[line.run] = line
    return newest_first([*lines.values()])


def list_here(directory: Path) -> list[RunLine]:
    """List the runs on this host with specs in the directory."""
    found = map(status_here, local_runs(directory).values())
    return [
        RunLine(one.run, one.state, one.attempt, "", KIND, one.submitted, one.reasons)
        for one in found
    ]


def newest_first(lines: list[RunLine]) -> list[RunLine]:
    """Sort runs by their last submission."""
    return sorted(lines, key=lambda line: line.submitted, reverse=True)


def _running(job: Json, pods: list[Json], ledger: Ledger) -> RunLine:
    head = job["metadata"]
    attempt = head["labels"].get(ATTEMPT_LABEL, "0")
    number = attempt_number(head["labels"])
    own = [
        pod
        for pod in pods
        if pod["metadata"]["labels"].get(RUN_LABEL) == head["name"]
        and pod["metadata"]["labels"].get(ATTEMPT_LABEL) == attempt
    ]
    wanted, running = wanted_pods(job), sum(map(is_running, own))
    record = ledger.attempt(number)
    submitted = record.submitted if record else ""
    submitted = submitted or str(head.get("creationTimestamp") or "")
    state = job_state(job, running, wanted)
    return RunLine(
        head["name"],
        str(state),
        number,
        f"{running}/{wanted}",
        job["kind"],
        submitted,
        ledger.damage,
    )


def _ended(run: str, ledger: Ledger, now: datetime) -> RunLine:
    newest = ledger.newest or without_record(0)
    state = state_without_job(newest, now)
    return RunLine(run, state, newest.number, "", "", newest.submitted, ledger.damage)
