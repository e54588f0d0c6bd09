# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Stop and delete runs, in a cluster or on this host."""

import os
import shutil
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from seatrial.cluster import objects
from seatrial.cluster.errors import DeniedError, NotServedError
from seatrial.cluster.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NETWORK_POLICY,
    POD,
    POD_MONITOR,
    RAY_JOB,
    SERVICE,
    SERVICE_ACCOUNT,
    TRAINING_RUNTIME,
    VOLUME_CLAIM,
    ObjectKind,
)
from seatrial.cluster.transport import Json
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.rendering.names import COMPONENT_LABEL, RUN_LABEL
from seatrial.runs.ledger.host import LocalRun
from seatrial.runs.ledger.kubernetes import COMPONENT as LEDGER
from seatrial.runs.ledger.ledger import AttemptOutcome, End, Ledger, utc
from seatrial.runs.namespace import Site
from seatrial.runs.ownership import belongs_to, owner_of
from seatrial.runs.status.attempt_state import end_of_attempt, faulty_nodes
from seatrial.runs.status.observe import (
    FoundJob,
    Observed,
    between_job_and_pods,
    observe,
    pods_of_any_attempt,
    refuse_foreign,
)
from seatrial.runs.status.status import no_run

LOOK_SECONDS = 1.0
"""The polling interval for pods to disappear."""
SPARE_SECONDS = 120.0
"""The time that pods get in addition to their grace period before they are reported as stuck."""
REMOVAL_SECONDS = 30.0
"""How long to wait for the removal of pods that have exited.

A pod of a Job keeps a finalizer until the Job controller has seen that its Job is gone.
"""
_PAUSE_SECONDS = 0.05
_STOP_PAUSE_SECONDS = 0.1
TELL_SECONDS = 10.0
"""Report a wait that is longer than this."""


def end_job(site: Site, job: FoundJob, end: End) -> None:
    """Delete a job, record the end of its attempt, and wait until its pods are gone.

    Two attempts of one run must never write to its checkpoints at the same time.
    """
    # In the background: only the pods matter, and the wait below covers them.
    objects.delete(site.api, job.kind, site.namespace, job.name, uid=job.uid)
    # Before the wait, which may time out or be interrupted: the job is deleted in any case.
    site.ledgers.end(job.name, job.attempt, end)

    _wait_until_gone(site, job.name, {job.operator}, job)


def wait_for_earlier_pods(site: Site, run: str, ledger: Ledger) -> None:
    """Wait for the pods of earlier attempts whose job is gone.

    An interrupted `stop`, or somebody who deletes the job, leaves pods behind that are still
    saving.
    """
    _wait_until_gone(site, run, {record.operator for record in ledger.attempts})


def _wait_until_gone(
    site: Site, run: str, operators: Collection[str], job: FoundJob | None = None
) -> None:
    """Wait until the pods and their owners are gone. Raises if that takes too long."""
    began, told, ended_at, limit = site.clock(), False, None, 0.0
    while True:
        # Read the pods last: an owner that still exists may create another one.
        above = _above_pods(site, run, job)
        pods = pods_of_any_attempt(site.api, site.namespace, run, operators)
        left = [*(str(p["metadata"]["name"]) for p in pods if not _has_ended(p)), *above]
        if not left and not pods:
            return
        graces = [float(pod["spec"].get("terminationGracePeriodSeconds") or 30) for pod in pods]
        limit = max(limit, max(graces, default=30.0) + SPARE_SECONDS)
        now = site.clock()
        if not left:
            ended_at = now if ended_at is None else ended_at
            if now - ended_at >= REMOVAL_SECONDS:
                return
        elif now - began > limit:
            raise FindingsError([_stuck(site, left, now - began)])
        elif now - began > TELL_SECONDS and not told:
            told = True
            names = ", ".join(left[:3])
            site.tell(f"{run} is saving and exiting: {names}. Waiting up to {limit:.0f} s.")
        site.sleep(LOOK_SECONDS)


def _above_pods(site: Site, run: str, job: FoundJob | None) -> list[str]:
    """Name the objects that may still create pods: the deleted job and its operator's objects."""
    found = between_job_and_pods(site.api, site.namespace, run)
    if job is not None:
        there = objects.read(site.api, job.kind, site.namespace, run)
        is_same = there is not None and there["metadata"]["uid"] == job.uid
        found += [f"{job.kind.name} {run}"] if is_same else []
    return found


def _has_ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _stuck(site: Site, left: list[str], waited: float) -> Finding:
    return Finding(
        RunCode.STILL_ENDING,
        Severity.ERROR,
        Where(field=f"{site.namespace}/{left[0]}"),
        f"the previous attempt has not exited after {waited:.0f} s; {len(left)} left: "
        f"{', '.join(left[:5])}.",
        str(len(left)),
        "Check that their nodes respond (kubectl get pods -o wide). Pods on a lost node disappear "
        "when the node is removed. Then rerun this command.",
    )


KINDS = (
    *(RAY_JOB, JOB, TRAINING_RUNTIME, DEPLOYMENT, SERVICE, NETWORK_POLICY, POD_MONITOR),
    *(SERVICE_ACCOUNT, POD, VOLUME_CLAIM, CONFIG_MAP),
)
"""The kinds of a run's objects other than its job, in the order of deletion.

ConfigMaps are last, because the ledger is one: it keeps a partly deleted run findable.
"""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The result of stopping a run."""

    attempt: int
    """The attempt that was stopped, or the newest."""
    was_running: bool
    """True if a running attempt was stopped."""
    outcome: AttemptOutcome | None
    """The outcome, if the attempt had already ended."""
    findings: tuple[Finding, ...] = ()
    """Damaged state of the run. It does not prevent the stop."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The objects that deleting a run removes, and the ones that it keeps."""

    removed: tuple[str, ...]
    """Deleted objects, as `Kind name`."""
    kept: tuple[str, ...]
    """Kept volumes, and objects with the run's labels that Seatrial did not create."""
    unseen: tuple[str, ...] = ()
    """Kinds that the account cannot list, so that objects may be left."""


@dataclass(frozen=True, slots=True)
class _LabelledObjects:
    """The objects of one kind with the run's label."""

    kind: ObjectKind
    own: tuple[Json, ...]
    """Created by Seatrial."""
    others: tuple[Json, ...]
    """Not created by Seatrial. A controller's objects are deleted with their owner, and are in
    neither."""

    def named(self, items: tuple[Json, ...]) -> list[str]:
        return [f"{self.kind.name} {each['metadata']['name']}" for each in items]


def stop(site: Site, run: str) -> Stopped:
    """Stop the processes of a run, which save first. Volumes and the ledger are kept."""
    observed = _existing(site, run)
    newest = observed.ledger.newest
    if observed.job is None:
        # An interrupted stop, or somebody else, deleted the job. Its pods may still be saving.
        wait_for_earlier_pods(site, run, observed.ledger)
        number = newest.number if newest else 0
        outcome = newest.outcome if newest else None
        return Stopped(number, False, outcome, observed.ledger.damage)
    over = end_of_attempt(observed, site.now)
    if over is None:
        end_job(site, observed.job, _stopped(site, observed))
    else:
        site.ledgers.end(run, observed.job.attempt, over)
    outcome = over.outcome if over else None
    return Stopped(observed.job.attempt, over is None, outcome, observed.ledger.damage)


def removal(site: Site, run: str, *, volumes: bool) -> Removal:
    """List what deleting a run would remove."""
    observed = observe(site.api, site.namespace, run)
    found, unseen = _found(site, run)
    # You can prepare data for a run that was never launched.
    if not observed.exists and not any(each.own for each in found):
        raise FindingsError([no_run(site.namespace, run)])
    refuse_foreign(observed)
    job = () if observed.job is None else (f"{observed.job.kind.name} {run}",)
    going = [each for each in found if volumes or each.kind is not VOLUME_CLAIM]
    staying = [each for each in found if each not in going]
    removed = [name for each in going for name in each.named(each.own)]
    kept = [name for each in staying for name in each.named(each.own)]
    kept += [
        f"{name}, owned by {owner_of(item)}"
        for each in found
        for name, item in zip(each.named(each.others), each.others, strict=True)
    ]
    return Removal((*job, *removed), tuple(kept), unseen)


def delete(site: Site, run: str, *, volumes: bool) -> Removal:
    """Delete a run: its job first, then its other objects. Volumes only if `volumes` is set."""
    planned = removal(site, run, volumes=volumes)
    # Observe it again, because the job may have changed.
    observed = observe(site.api, site.namespace, run)
    refuse_foreign(observed)
    if observed.job is not None:
        end = end_of_attempt(observed, site.now) or _stopped(site, observed)
        end_job(site, observed.job, end)
    else:
        wait_for_earlier_pods(site, run, observed.ledger)
    found, _ = _found(site, run)
    for each in found:
        if volumes or each.kind is not VOLUME_CLAIM:
            for item in each.own:
                head = item["metadata"]
                objects.delete(site.api, each.kind, site.namespace, head["name"], uid=head["uid"])
    return planned


def _found(site: Site, run: str) -> tuple[list[_LabelledObjects], tuple[str, ...]]:
    """List the objects of a run in the order of deletion, and the kinds that cannot be listed."""
    made = site.ledgers.objects_of(run)
    found, unseen = [], []
    for kind in KINDS:
        try:
            items, _ = objects.list_all(site.api, kind, site.namespace, f"{RUN_LABEL}={run}")
        except NotServedError:
            continue
        except DeniedError:
            unseen.append(kind.name)
            continue
        own, others = [], []
        for item in items:
            if belongs_to(item, run, made):
                own.append(item)
            elif not item["metadata"].get("ownerReferences"):
                others.append(item)
        # Delete the ledger last: it keeps a partly deleted run findable.
        own.sort(key=lambda item: item["metadata"]["labels"].get(COMPONENT_LABEL) == LEDGER)
        found.append(_LabelledObjects(kind, tuple(own), tuple(others)))
    return found, tuple(unseen)


def _stopped(site: Site, observed: Observed) -> End:
    return End(utc(site.now), AttemptOutcome.STOPPED, "", faulty_nodes(observed.pods))


def _existing(site: Site, run: str) -> Observed:
    observed = observe(site.api, site.namespace, run)
    if not observed.exists:
        raise FindingsError([no_run(site.namespace, run)])
    refuse_foreign(observed)
    return observed


def stop_here(run: LocalRun) -> bool:
    """Ask the processes to save and exit, and wait for them. Return True if any was running.

    Finds them even if the run's files are damaged. Raises UsageError if a supervisor is alive that
    this host cannot see.
    """
    newest = run.read().newest
    while newest is not None and run.is_starting(newest):
        time.sleep(_PAUSE_SECONDS)
    running = run.supervisors(thorough=True)
    for process in running.values():
        # It may exit at this moment.
        with suppress(ProcessLookupError):
            if process > 0:
                os.kill(process, signal.SIGTERM)
    for number, process in running.items():
        while run.is_supervisor(process, number):
            time.sleep(_STOP_PAUSE_SECONDS)
    unseen = [number for number, process in running.items() if process <= 0]
    if unseen:
        raise UsageError(
            f"attempt {unseen[0]} of {run.name} is supervised by a process that is not visible "
            "here: it is on another host, in another container, or belongs to another user. Run "
            "seatrial stop on that host, in that container, or as that user."
        )
    return bool(running)


def forget_here(run: LocalRun) -> None:
    """Stop a run on this host and delete its ledger. Its data and checkpoints are kept."""
    with run.held():
        stop_here(run)
        try:
            shutil.rmtree(run.directory)
        except OSError as error:
            raise UsageError(f"cannot delete {error.filename}: {error.strerror}.") from None
