# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read everything about a run from a cluster, once."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from seatrial.cluster import objects
from seatrial.cluster.api import Api
from seatrial.cluster.discovery import JOB_KINDS
from seatrial.cluster.errors import DeniedError, NotServedError
from seatrial.cluster.kinds import (
    EVENT,
    JOB,
    JOB_SET,
    NODE,
    POD,
    TRAIN_JOB,
    VOLUME_CLAIM,
    WORKLOAD,
    ObjectKind,
)
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.rendering.names import ATTEMPT_LABEL, COMPONENT_LABEL, RUN_LABEL, Component
from seatrial.rendering.train_job import JOB as NODE_JOB
from seatrial.runs.ledger.kubernetes import ClusterLedgerStore
from seatrial.runs.ledger.ledger import Ledger
from seatrial.runs.ownership import belongs_to, not_ours
from seatrial.spec.cluster import Operator

_MOST_DIGITS = 9
"""The maximum digits of an attempt number, because a label may have been edited."""


@dataclass(frozen=True, slots=True)
class FoundJob:
    operator: Operator
    """The operator that runs it."""
    kind: ObjectKind
    object: Json

    @property
    def labels(self) -> dict[str, str]:
        return self.object["metadata"].get("labels") or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.object["metadata"].get("annotations") or {}

    @property
    def name(self) -> str:
        """The name of the job, which is the run's name."""
        return str(self.object["metadata"]["name"])

    @property
    def is_ours(self) -> bool:
        """True if Seatrial launched this job for the run of its name."""
        return belongs_to(self.object, self.name) and bool(self.spec_digest)

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def attempt(self) -> int:
        """The attempt. 0 if Seatrial did not launch the job."""
        return attempt_number(self.labels)

    @property
    def spec_digest(self) -> str:
        """The digest of its spec. Empty if Seatrial did not launch the job."""
        return self.annotations.get("seatrial.dev/spec-digest", "")


@dataclass(frozen=True, slots=True)
class Observed:
    """The state of a run in a cluster."""

    run: str
    namespace: str
    ledger: Ledger
    job: FoundJob | None = None
    pods: tuple[Json, ...] = ()
    """The training pods of the job's attempt."""
    claims: tuple[Json, ...] = ()
    """The PVCs that the pods mount."""
    events: tuple[Json, ...] = ()
    """Events about any of these, newest last."""
    workload: Json | None = None
    """Kueue's object for the job."""
    nodes: tuple[Json, ...] | None = None
    """The nodes in the cluster. None if the account cannot list them."""

    @property
    def exists(self) -> bool:
        """True if the run has a job or a ledger."""
        return self.job is not None or not self.ledger.is_empty


def refuse_foreign(observed: Observed) -> None:
    """Raise if Seatrial did not launch the job with the run's name."""
    job = observed.job
    if job is not None and not job.is_ours:
        raise FindingsError([not_ours(job.kind, observed.namespace, job.object, observed.run)])


def attempt_number(labels: Mapping[str, str]) -> int:
    """Return the attempt in an object's labels, or 0."""
    text = labels.get(ATTEMPT_LABEL, "")
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def find_job(api: Api, namespace: str, run: str) -> FoundJob | None:
    """Return the job of a run, for any operator that the cluster serves and the account can read.

    Jobs of different kinds may share a name. A job of another owner is returned only if the run has
    none.
    """
    foreign: FoundJob | None = None
    for operator, kind in JOB_KINDS.items():
        try:
            found = objects.read(api, kind, namespace, run)
        except (DeniedError, NotServedError):
            continue
        if found is None:
            continue
        job = FoundJob(operator, kind, {**found, "kind": kind.name})
        if job.is_ours:
            return job
        foreign = foreign or job
    return foreign


def training_pods(api: Api, namespace: str, job: FoundJob) -> list[Json]:
    """Return the training pods of a job's attempt that the job owns.

    Labels alone do not identify them: `kubectl debug --copy-to --keep-labels` copies them.
    """
    selector = f"{RUN_LABEL}={job.name},{COMPONENT_LABEL}={Component.TRAINING}"
    if job.attempt:
        selector += f",{ATTEMPT_LABEL}={job.attempt}"
    return [pod for pod in objects.list_all(api, POD, namespace, selector)[0] if _owns(job, pod)]


def pods_of_any_attempt(
    api: Api, namespace: str, run: str, operators: Collection[str]
) -> list[Json]:
    """Return the training pods of all attempts of a run. Their jobs may be gone.

    Args:
        api: The cluster.
        namespace: The namespace of the run.
        run: The name of the run.
        operators: The operators of its attempts.
    """
    selector = f"{RUN_LABEL}={run},{COMPONENT_LABEL}={Component.TRAINING}"
    jobs = {kind.name for kind in JOB_KINDS.values()}
    # HyperPod's operator is not public: any owner may be an intermediate object of it.
    is_any = Operator.HYPERPOD in operators
    return [
        pod
        for pod in objects.list_all(api, POD, namespace, selector)[0]
        if any(
            is_any
            or (owner.get("kind") in jobs and owner.get("name") == run)
            or (owner.get("kind") == "Job" and _is_made_by_job_set(str(owner.get("name")), run))
            for owner in pod["metadata"].get("ownerReferences") or ()
        )
    ]


def between_job_and_pods(api: Api, namespace: str, run: str) -> list[str]:
    """Name the objects that Trainer created for a TrainJob of the run: the JobSet and its Job.

    While either exists, its controller may create pods.
    """
    found = []
    for kind, name, owner in ((JOB_SET, run, TRAIN_JOB), (JOB, f"{run}-{NODE_JOB}-0", JOB_SET)):
        try:
            there = objects.read(api, kind, namespace, name) or {"metadata": {}}
        except (DeniedError, NotServedError):
            continue
        owners = there["metadata"].get("ownerReferences") or ()
        if any((each.get("kind"), each.get("name")) == (owner.name, run) for each in owners):
            found.append(f"{kind.name} {name}")
    return found


def _owns(job: FoundJob, pod: Json) -> bool:
    """True if a job owns a pod, directly or through intermediate objects."""
    owners = pod["metadata"].get("ownerReferences") or ()
    if job.operator is Operator.HYPERPOD:
        # HyperPod's operator is not public: any owner may be an intermediate object of it.
        return bool(owners)
    if job.operator is Operator.TRAINJOB:
        # TrainJob, JobSet, Job, pod. The intermediate objects may be deleted before the pod, so
        # only the name of the Job is reliable.
        return any(
            owner.get("kind") == "Job" and _is_made_by_job_set(str(owner.get("name")), job.name)
            for owner in owners
        )
    return any(owner.get("uid") == job.uid for owner in owners)


def _is_made_by_job_set(name: str, run: str) -> bool:
    """True if JobSet uses this name for a Job of the run."""
    return re.fullmatch(rf"{re.escape(run)}-{NODE_JOB}-[0-9]+", name) is not None


def observe(api: Api, namespace: str, run: str) -> Observed:
    """Read everything about a run that the account can see."""
    ledger = ClusterLedgerStore(api, namespace).read(run)
    job = find_job(api, namespace, run)
    if job is None:
        return Observed(run, namespace, ledger)
    pods = tuple(training_pods(api, namespace, job))
    return observe_around(api, namespace, run, ledger, job, pods)


def observe_around(
    api: Api, namespace: str, run: str, ledger: Ledger, job: FoundJob, pods: tuple[Json, ...]
) -> Observed:
    """Read the objects that explain the state of a job: nodes, PVCs, queue, events."""
    waiting = any(pod.get("status", {}).get("phase") == "Pending" for pod in pods)
    # There may be many nodes. Only a pending pod needs them.
    nodes = _if_allowed(api, NODE, "") if waiting else ()
    claims = _claims(api, namespace, pods)
    workload = _workload(api, namespace, job)
    about = {job.uid, *(each["metadata"]["uid"] for each in (*pods, *claims))}
    return Observed(
        run,
        namespace,
        ledger,
        job,
        pods,
        claims,
        _events(api, namespace, about, run),
        workload,
        None if nodes is None else tuple(nodes),
    )


def _claims(api: Api, namespace: str, pods: tuple[Json, ...]) -> tuple[Json, ...]:
    names = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }
    found = (objects.read(api, VOLUME_CLAIM, namespace, name) for name in sorted(names))
    return tuple(each for each in found if each is not None)


def _workload(api: Api, namespace: str, job: FoundJob) -> Json | None:
    """Return Kueue's object for a job. Only a job with a queue has one."""
    if "kueue.x-k8s.io/queue-name" not in job.labels:
        return None
    found = _if_allowed(api, WORKLOAD, namespace) or ()
    return next(objects.owned_by(list(found), job.uid), None)


def _events(api: Api, namespace: str, about: set[str], run: str) -> tuple[Json, ...]:
    """Return the events about these objects, and about the intermediate objects of the job."""
    found = _if_allowed(api, EVENT, namespace) or ()
    ours = [event for event in found if _is_about(event.get("involvedObject") or {}, about, run)]
    return tuple(sorted(ours, key=event_time))


def _is_about(subject: Json, about: set[str], run: str) -> bool:
    """True if an event is about these objects, the run's JobSet, or one of its Jobs or pods.

    A run `NAME-node-0` has the same name as a Job that JobSet creates for a run `NAME`, so the kind
    decides.
    """
    if subject.get("uid") in about:
        return True
    name = str(subject.get("name") or "")
    if subject.get("kind") in ("Job", "Pod"):
        made = rf"{re.escape(run)}-node-[0-9]+(-[0-9]+-[a-z0-9]+)?"
        return re.fullmatch(made, name) is not None
    return name == run


def event_time(event: Json) -> str:
    """Return when an event was last seen."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def _if_allowed(api: Api, kind: ObjectKind, namespace: str) -> list[Json] | None:
    """List the objects of a kind. None if the account cannot, or the kind is not served."""
    try:
        return objects.list_all(api, kind, namespace)[0]
    except (DeniedError, NotServedError):
        return None


_SUCCESS = ("Succeeded", "Complete", "Completed")
_FAILURE = ("Failed",)


class JobState(StrEnum):
    """The state of a job, for any operator."""

    WAITING = "waiting"
    """It exists, but not all its pods are running."""
    SUSPENDED = "suspended"
    """A queue or a user has suspended it."""
    RUNNING = "running"
    """All pods are running."""
    SUCCEEDED = "succeeded"
    """It finished."""
    FAILED = "failed"
    """It failed for good."""
    ENDING = "ending"
    """It was deleted, and its pods are exiting."""

    @property
    def is_over(self) -> bool:
        """True if the job has finished."""
        return self in (JobState.SUCCEEDED, JobState.FAILED)


def condition(item: Json, *types: str) -> Json | None:
    """Return the condition of one of these types whose status is True."""
    for each in (item.get("status") or {}).get("conditions") or ():
        if each.get("type") in types and each.get("status") == "True":
            found: Json = each
            return found
    return None


def job_state(job: Json, running: int, wanted: int) -> JobState:
    """Return the state of a job from any operator, given its number of running pods."""
    if condition(job, *_SUCCESS):
        return JobState.SUCCEEDED
    if condition(job, *_FAILURE):
        return JobState.FAILED
    if job["metadata"].get("deletionTimestamp"):
        return JobState.ENDING
    if is_suspended(job):
        return JobState.SUSPENDED
    return JobState.RUNNING if wanted and running >= wanted else JobState.WAITING


def is_suspended(job: Json) -> bool:
    """True if the job is suspended, according to the field that its kind uses."""
    spec = job.get("spec") or {}
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


def end_of(job: Json) -> tuple[str, str]:
    """Return when and why a finished job ended, as its operator reports."""
    found = condition(job, *_SUCCESS, *_FAILURE) or {}
    when = found.get("lastTransitionTime") or found.get("lastUpdateTime") or ""
    return str(when), str(found.get("message") or found.get("reason") or "")


def wanted_pods(job: Json) -> int:
    """Return how many pods a job should have."""
    spec = job.get("spec") or {}
    if "pytorchReplicaSpecs" in spec:
        return sum(int(each.get("replicas") or 0) for each in spec["pytorchReplicaSpecs"].values())
    if "replicaSpecs" in spec:
        return sum(int(each.get("replicas") or 0) for each in spec["replicaSpecs"])
    return int((spec.get("trainer") or {}).get("numNodes") or spec.get("parallelism") or 1)
