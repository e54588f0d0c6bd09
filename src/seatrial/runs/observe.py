# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Everything about a run that a cluster shows, read once."""

from dataclasses import dataclass

from seatrial.cluster import objects
from seatrial.cluster.api import Api
from seatrial.cluster.errors import DeniedError, NotServedError
from seatrial.cluster.kinds import EVENT, NODE, POD, VOLUME_CLAIM, WORKLOAD, Kind
from seatrial.cluster.served import JOB_KINDS
from seatrial.cluster.transport import Json
from seatrial.rendering.names import ATTEMPT_LABEL, COMPONENT_LABEL, RUN_LABEL, Component
from seatrial.runs.cluster_ledger import ClusterLedgerStore
from seatrial.runs.ledger import Ledger
from seatrial.spec.cluster import Operator


@dataclass(frozen=True, slots=True)
class FoundJob:
    """The job of a run."""

    operator: Operator
    """Whose job it is."""
    kind: Kind
    """Its kind."""
    object: Json
    """The job itself."""

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.object["metadata"].get("labels") or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return self.object["metadata"].get("annotations") or {}

    @property
    def uid(self) -> str:
        """Its identity."""
        return str(self.object["metadata"]["uid"])

    @property
    def attempt(self) -> int:
        """The attempt that it is; 0 when it is not one of ours."""
        return int(self.labels.get(ATTEMPT_LABEL, 0))

    @property
    def spec_digest(self) -> str:
        """The identity of the spec that it was made from."""
        return self.annotations.get("seatrial.dev/spec-digest", "")


@dataclass(frozen=True, slots=True)
class Observed:
    """What there is of a run."""

    run: str
    """The run's name."""
    namespace: str
    """Its namespace."""
    ledger: Ledger
    """Its attempts."""
    job: FoundJob | None = None
    """Its job."""
    pods: tuple[Json, ...] = ()
    """The training pods of the job's attempt."""
    claims: tuple[Json, ...] = ()
    """The volume claims that the pods mount."""
    events: tuple[Json, ...] = ()
    """Events about any of these, the newest last."""
    workload: Json | None = None
    """What Kueue makes of the job."""
    nodes: tuple[Json, ...] | None = None
    """The nodes of the cluster; nothing when the account may not see them."""

    @property
    def exists(self) -> bool:
        """Whether there is anything of the run."""
        return self.job is not None or bool(self.ledger.attempts)


def find_job(api: Api, namespace: str, run: str) -> FoundJob | None:
    """The job of a run's name, of whatever operator the cluster has and the account may see."""
    for operator, kind in JOB_KINDS.items():
        try:
            found = objects.read(api, kind, namespace, run)
        except (DeniedError, NotServedError):
            continue
        if found is not None:
            return FoundJob(operator, kind, {**found, "kind": kind.name})
    return None


def training_pods(api: Api, namespace: str, run: str, attempt: int = 0) -> list[Json]:
    """The training pods of a run, or of one attempt of it."""
    selector = f"{RUN_LABEL}={run},{COMPONENT_LABEL}={Component.TRAINING}"
    if attempt:
        selector += f",{ATTEMPT_LABEL}={attempt}"
    return objects.list_all(api, POD, namespace, selector)[0]


def observe(api: Api, namespace: str, run: str) -> Observed:
    """Look at all of a run; what the account may not see is left out."""
    ledger = ClusterLedgerStore(api, namespace).read(run)
    job = find_job(api, namespace, run)
    if job is None:
        return Observed(run, namespace, ledger)
    pods = tuple(training_pods(api, namespace, run, job.attempt))
    return observe_around(api, namespace, run, ledger, job, pods)


def observe_around(
    api: Api, namespace: str, run: str, ledger: Ledger, job: FoundJob, pods: tuple[Json, ...]
) -> Observed:
    """What explains the state of a job whose pods were looked at: nodes, claims, queue, events."""
    waiting = any(pod.get("status", {}).get("phase") == "Pending" for pod in pods)
    # Nodes are many; only a pod that waits needs them to be explained.
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
    """Kueue's object for a job; only a job with a queue has one."""
    if "kueue.x-k8s.io/queue-name" not in job.labels:
        return None
    found = _if_allowed(api, WORKLOAD, namespace) or ()
    return next(objects.owned_by(list(found), job.uid), None)


def _events(api: Api, namespace: str, about: set[str], run: str) -> tuple[Json, ...]:
    """The events about these objects, and about what stands between a job and its pods."""
    found = _if_allowed(api, EVENT, namespace) or ()
    ours = [
        event
        for event in found
        if event.get("involvedObject", {}).get("uid") in about
        or event.get("involvedObject", {}).get("name", "").startswith(f"{run}-node-")
        or event.get("involvedObject", {}).get("name", "") == run
    ]
    return tuple(sorted(ours, key=event_time))


def event_time(event: Json) -> str:
    """When an event was last seen."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def _if_allowed(api: Api, kind: Kind, namespace: str) -> list[Json] | None:
    """The objects of a kind; nothing when the account may not see them or there is no such kind."""
    try:
        return objects.list_all(api, kind, namespace)[0]
    except (DeniedError, NotServedError):
        return None
