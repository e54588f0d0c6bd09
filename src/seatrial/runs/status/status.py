# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The status of a run: its state, the reasons for it, and its attempts."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from seatrial.cluster.errors import DeniedError
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.node_measurements import NodeMeasurement
from seatrial.runs.ledger.host import LocalRun
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, Ledger, without_record
from seatrial.runs.namespace import Site
from seatrial.runs.status.attempt_state import end_of_attempt, is_being_submitted, state_of
from seatrial.runs.status.container_reasons import container_statuses, node_measurement
from seatrial.runs.status.observe import JobState, Observed, observe
from seatrial.runs.status.pending_reasons import operator_message, reasons, wanted_and_running

STARTING = "starting"
"""The state of a recorded attempt on this host whose supervisor has not started yet."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a run and the reasons for it."""

    run: str
    """The run's name."""
    place: str
    """The namespace and the kind of job, or the directory on this host."""
    state: str
    """The job's state, or the outcome of the last attempt without a job."""
    attempt: int
    """The newest attempt."""
    submitted: str
    """The submission time, in UTC."""
    since: str
    """The time of the last state change, in UTC. Empty if unknown."""
    wanted: int
    """The number of pods that should run, or of processes on this host."""
    running: int
    """The number of running pods or processes."""
    restarts: int
    """The container restarts of this attempt."""
    reasons: tuple[Finding, ...]
    """Why it is not running, most important first."""
    attempts: tuple[AttemptRecord, ...]
    """All attempts, in order."""
    message: str = ""
    """The operator's message about a failure."""
    is_here: bool = False
    """True if the run is on this host, so that it has no pods."""
    nodes: tuple[NodeMeasurement, ...] = ()
    """The preflight measurements of the nodes, in the order of the pods."""

    @property
    def is_over(self) -> bool:
        """True if the run needs a new launch to continue."""
        return self.state in (*map(str, AttemptOutcome), JobState.FAILED, JobState.SUCCEEDED)

    @property
    def succeeded(self) -> bool:
        """True if all steps are done."""
        return self.state == JobState.SUCCEEDED

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain data. `place` contains where the run is."""
        data = {name: value for name, value in asdict(self).items() if name != "is_here"}
        return data | {"nodes": [node.to_dict() for node in self.nodes]}


def status(site: Site, run: str) -> Status:
    """Return the status of a run. Records an end in the ledger that is not recorded yet."""
    observed = observe(site.api, site.namespace, run)
    if not observed.exists:
        raise FindingsError([no_run(site.namespace, run)])
    note_end(site, observed)
    return status_of(observed, site.now)


def status_here(run: LocalRun) -> Status:
    """Return the status of a run on this host."""
    ledger = run.read()
    running = run.supervisors()
    # Prefer a running attempt, in case somebody created a newer record manually.
    shown = ledger.attempt(max(running, default=0)) or ledger.newest
    if shown is None:
        raise FindingsError([no_run(str(run.directory), run.name)])
    is_running = shown.number in running
    state = "running" if is_running else str(shown.outcome or AttemptOutcome.GONE)
    if not is_running and run.is_starting(shown):
        state = STARTING
    log = run.file(shown.number, "log")
    return Status(
        run.name,
        f"on this host, log {log}",
        state,
        shown.number,
        shown.submitted,
        shown.submitted if is_running else shown.ended,
        1,
        int(is_running),
        0,
        ledger.damage,
        ledger.attempts,
        is_here=True,
    )


def note_end(site: Site, observed: Observed) -> None:
    """Record the end of an attempt in the ledger, if the account has permission."""
    end = end_of_attempt(observed, site.now)
    if end is None or observed.job is None or not observed.job.is_ours:
        return
    record = observed.ledger.attempt(observed.job.attempt)
    if record is None or record.outcome is not None:
        return
    try:
        site.ledgers.end(observed.run, observed.job.attempt, end)
    except DeniedError:
        # An account with read access sees the same in the job.
        return


def status_of(observed: Observed, now: datetime) -> Status:
    """Derive the status from the observed state."""
    state = state_of(observed)
    wanted, running = wanted_and_running(observed)
    newest = observed.ledger.newest
    if observed.job is None or state is None:
        return _without_job(observed.run, observed.namespace, observed.ledger, now)
    record = observed.ledger.attempt(observed.job.attempt) or newest
    created = str(observed.job.object["metadata"].get("creationTimestamp") or "")
    quiet = state in (JobState.SUCCEEDED, JobState.ENDING)
    found = [] if quiet else reasons(observed)
    return Status(
        observed.run,
        f"{observed.job.kind.name} in {observed.namespace}/{observed.run}",
        str(state),
        observed.job.attempt,
        (record.submitted if record else "") or created,
        _since(observed, state) or created,
        wanted,
        running,
        sum(int(s.get("restartCount") or 0) for p in observed.pods for s in container_statuses(p)),
        (*found, *observed.ledger.damage),
        observed.ledger.attempts,
        operator_message(observed),
        nodes=tuple(filter(None, map(node_measurement, observed.pods))),
    )


def _without_job(run: str, place: str, ledger: Ledger, now: datetime) -> Status:
    newest = ledger.newest or without_record(0)
    state = state_without_job(newest, now)
    found: tuple[Finding, ...] = ()
    if state == JobState.WAITING:
        found = (_submitting(run, place, newest),)
    elif state == AttemptOutcome.GONE:
        found = (_unknown_end(run, place, newest),)
    return Status(
        run,
        f"no job in {place}",
        state,
        newest.number,
        newest.submitted,
        newest.ended,
        0,
        0,
        0,
        (*found, *ledger.damage),
        ledger.attempts,
    )


def state_without_job(newest: AttemptRecord, now: datetime) -> str:
    """Return the state of a run without a job, from its newest attempt."""
    if newest.outcome is None and is_being_submitted(newest, now):
        return str(JobState.WAITING)
    return str(newest.outcome or AttemptOutcome.GONE)


def _submitting(run: str, place: str, attempt: AttemptRecord) -> Finding:
    return Finding(
        RunCode.SUBMITTING,
        Severity.NOTE,
        Where(field=f"{place}/{run}"),
        f"attempt {attempt.number} was started, but its job does not exist yet.",
        str(attempt.number),
        "Wait. If the launch was interrupted, run it again: it picks up where it stopped.",
    )


def _unknown_end(run: str, place: str, attempt: AttemptRecord) -> Finding:
    """Report an attempt whose job disappeared before its end was recorded."""
    return Finding(
        RunCode.UNKNOWN_END,
        Severity.WARNING,
        Where(field=f"{place}/{run}"),
        f"the outcome of attempt {attempt.number} is unknown: its job expired or was deleted "
        "before any command recorded its end.",
        str(attempt.number),
        "Its event log, events.jsonl in the run's directory on the volume, shows its progress. "
        "A new launch continues from the last checkpoint, and finishes soon if all steps are done.",
    )


def _since(observed: Observed, state: JobState) -> str:
    """Return the time of the newest change of the job's conditions."""
    if observed.job is None or state in (JobState.WAITING, JobState.ENDING):
        return ""
    conditions = (observed.job.object.get("status") or {}).get("conditions") or ()
    times = [str(c.get("lastTransitionTime") or "") for c in conditions if c["status"] == "True"]
    return max(times, default="")


def no_run(place: str, run: str) -> Finding:
    """Return the finding for a run that does not exist."""
    return Finding(
        RunCode.NO_RUN,
        Severity.ERROR,
        Where(field=f"{place}/{run}"),
        f"no run named {run} in {place}.",
        run,
        "Check seatrial list, --namespace and --context, or launch the run.",
    )


def age(since: str, now: datetime) -> str:
    """Format the time since `since` in a suitable unit."""
    try:
        seconds = max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
    except ValueError:
        return "?"
    for size, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (size == 60 and seconds >= 60):
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"
