# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Preparing data in pods: a list is frozen, each task is a pod, and the parts are put together.

Three jobs, one after the other. Each can be found again by its name, so that the same command goes
on after any end. A job that goes on is trusted when it was made from the same inputs; one that is
over is not, for its corpus or its files may be others by now. What is done stays done by the
records beside the data, which the next job reads.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.cluster import objects
from seatrial.cluster.kinds import JOB, POD
from seatrial.cluster.pod_logs import ContainerLog
from seatrial.cluster.transport import Json
from seatrial.codes.rendering import RenderCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.hashing import digest
from seatrial.naming import PART_SEPARATOR, older_part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.data_jobs import (
    ASSEMBLY,
    BAD_USAGE,
    LISTING,
    TASKS,
    TaskListPlace,
    assembly_job,
    indexed_job,
    listing_job,
)
from seatrial.rendering.names import RUN_LABEL, object_name, spec_digest
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import Place, data_findings
from seatrial.runs.ledger.ledger import Ledger
from seatrial.runs.namespace import Site
from seatrial.runs.objects import (
    create_once,
    create_or_apply,
    foreign_objects,
    is_own,
    names_of,
    own_object,
)
from seatrial.runs.status.container_reasons import container_statuses, why_not_running
from seatrial.runs.status.observe import FoundJob, condition, observe_around
from seatrial.runs.status.pending_reasons import reasons
from seatrial.spec.cluster import Operator
from seatrial.storage.state_files import parse_json

EXPLAIN_SECONDS = 10.0
"""How often a job that waits is looked into: pods, events and nodes are many."""
GIVE_UP_SECONDS = 600.0
"""How long a reason that waiting does not mend may last before nobody waits any longer."""
LASTING = (RunCode.IMAGE, RunCode.SETTINGS, RunCode.VOLUME)
"""Reasons that waiting does not mend; room in the cluster or in a queue comes with time."""
_IMAGE_FIELD = re.compile(r"\bcluster\.image\b")


@dataclass(slots=True)
class WaitingJob:
    """What is known of why a job waits."""

    site: Site
    """Where it is, and who is told."""
    _looked: float | None = None
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)

    def is_due(self, job: Json) -> bool:
        """Whether it is time to look again; not while all its pods run."""
        status, now = job.get("status") or {}, self.site.clock()
        active = int(status.get("active") or 0)
        if active and int(status.get("ready") or 0) >= active:
            self._since.clear()
            return False
        if self._looked is not None and now - self._looked < EXPLAIN_SECONDS:
            return False
        self._looked = now
        return True

    def explain(self, job: Json, pods: list[Json]) -> None:
        """Tell every reason once that lasts; raise those that waiting does not mend."""
        now, found = self.site.clock(), self._reasons(job, pods)
        held = {(each.code, each.rule): each for each in found}
        self._since = {key: self._since.get(key, now) for key in held}
        for key, finding in held.items():
            # What goes away within a look, such as a pod without a node yet, is not worth a word.
            if key not in self._told and now - self._since[key] >= EXPLAIN_SECONDS:
                self._told.add(key)
                self.site.tell(f"{finding.where}: {finding.rule} {finding.fix}")
        moves = any((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
        lasting = [
            finding
            for key, finding in held.items()
            if finding.code in LASTING and now - self._since[key] >= GIVE_UP_SECONDS
        ]
        if lasting and not moves:
            raise FindingsError(lasting)

    def _reasons(self, job: Json, pods: list[Json]) -> list[Finding]:
        """The reasons that a run would give, in words of data preparation."""
        site, name = self.site, str(job["metadata"]["name"])
        # Which operator runs it is of no matter: Kubernetes' own controller does.
        found = FoundJob(Operator.AUTO, JOB, {**job, "kind": JOB.name})
        seen = observe_around(site.api, site.namespace, name, Ledger(), found, tuple(pods))
        return [
            replace(each, fix=_IMAGE_FIELD.sub("cluster.preparation.image", each.fix))
            for each in reasons(seen)
            if each.severity is Severity.ERROR or each.code == RunCode.QUEUE
        ]


LOOK_SECONDS = 2.0
"""How often a job is looked at."""
REMOVAL_SECONDS = 300.0
"""How long pods of a job that was deleted may take to end."""
CONTAINER = "prepare"
INPUTS = "seatrial.dev/inputs-digest"
"""The annotation with the digest of what a job was made from."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a preparation is."""

    step: str
    """Which of the three steps it is in, in words."""
    done: int
    """Pods that have succeeded."""
    tasks: int
    """Pods that there will be."""


Tell = Callable[[JobProgress], None]
"""Told how far it has come."""


class FailedJobError(FindingsError):
    """A job of data preparation has failed; `codes` holds the exit codes of its pods."""

    def __init__(self, finding: Finding, codes: frozenset[int]) -> None:
        """Keep the codes."""
        super().__init__([finding])
        self.codes = codes


def prepare_on_cluster(
    site: Site, plan: Plan, catalog: Catalog, place: Place, tell: Tell = lambda _: None
) -> dict[str, Any]:
    """Prepare the data of a plan in pods; what the last step says of them, as plain data."""
    attempt = Attempt(code_digest=own_digest())
    # All but the last, a RayJob: three plain Jobs do its work.
    *needed, _ = render(plan, catalog, Part.DATA, attempt, place).manifests
    scene = scene_of(plan, catalog, attempt)
    _refuse_warnings(data_findings(scene, place))
    jobs = [(JOB, object_name(plan, part)) for part in (LISTING, TASKS, ASSEMBLY)]
    taken = foreign_objects(site, plan.spec.name, [*names_of(needed), *jobs])
    if taken:
        raise FindingsError(taken)
    for manifest in needed:
        create_or_apply(site, plan.spec.name, manifest)
    spec = spec_digest(plan.spec)
    work = _listed(site, scene, spec, tell)
    if work is not None and work.done < work.tasks:
        tasks = indexed_job(scene, TaskListPlace(work.address, work.tasks))
        _run(site, _marked(tasks, spec), tell, "tasks")
    ended = _run(site, _marked(assembly_job(scene), spec), tell, "putting together")
    return _last_json(site, ended)


def _refuse_warnings(found: list[Finding]) -> None:
    """Refuse an image that cannot be pulled; in manifests, which people change, it is a warning."""
    unusable = [each for each in found if each.code == RenderCode.IMAGE]
    if unusable:
        raise FindingsError([replace(each, severity=Severity.ERROR) for each in unusable])


@dataclass(frozen=True, slots=True)
class _ListedTasks:
    """A frozen list, and how much of it is done."""

    address: str
    tasks: int
    done: int


def _listed(site: Site, scene: Scene, spec: str, tell: Tell) -> _ListedTasks | None:
    """Freeze the list; nothing when the data set is there, which the last step then checks."""
    try:
        job = _run(site, _marked(listing_job(scene), spec), tell, "listing")
    except FailedJobError as error:
        # So it ends where a data set is; any other wrong use the last step meets too, and tells.
        if BAD_USAGE in error.codes:
            return None
        raise
    told = _last_json(site, job)
    try:
        return _ListedTasks(str(told["address"]), int(told["tasks"]), int(told["done"]))
    except (KeyError, ValueError, TypeError):
        name = job["metadata"]["name"]
        said = "its pod was gone before what it printed was read"
        raise FindingsError([_failed(site, name, [], said)]) from None


def _marked(job: Json, spec: str) -> Json:
    """The job, with the identity of what goes into it: spec, image, list and command."""
    head = job["metadata"]
    inputs = digest({"spec": spec, "job": job["spec"]})
    notes = (head.get("annotations") or {}) | {INPUTS: inputs}
    return job | {"metadata": head | {"annotations": notes}}


def _run(site: Site, job: Json, tell: Tell, step: str) -> Json:
    """Bring a job to its end: the one that goes on, if it is of the same inputs, or a new one."""
    name, run = job["metadata"]["name"], job["metadata"]["labels"][RUN_LABEL]
    _remove_older(site, run, name)
    there = own_object(site, run, job)
    if there is not None and not _goes_on(there, job["metadata"]["annotations"][INPUTS]):
        _remove(site, there)
        there = None
    if there is None:
        # It may be there: made by a try whose answer was lost, or by another with the same spec.
        create_once(site, run, job)
    waiting = WaitingJob(site)
    while True:
        found = objects.read(site.api, JOB, site.namespace, name)
        if found is None:
            raise FindingsError([_failed(site, name, [], "somebody has deleted it")])
        status, tasks = found.get("status") or {}, int(found["spec"].get("completions") or 1)
        tell(JobProgress(step, int(status.get("succeeded") or 0), tasks))
        if condition(found, "Complete"):
            return found
        failed = condition(found, "Failed")
        if failed is not None:
            pods = _pods(site, found)
            said = str(failed.get("message") or "")
            raise FailedJobError(_failed(site, name, pods, said), _exit_codes(pods))
        if waiting.is_due(found):
            waiting.explain(found, _pods(site, found))
        site.sleep(LOOK_SECONDS)


def _remove_older(site: Site, run: str, name: str) -> None:
    """Delete the same job of an earlier version of Seatrial, which had another name."""
    older = older_part_name(run, name.rpartition(PART_SEPARATOR)[2])
    there = objects.read(site.api, JOB, site.namespace, older)
    if there is not None and is_own(site, run, there):
        _remove(site, there)


def _goes_on(job: Json, inputs: str) -> bool:
    """Whether a job that is there was made from these inputs and is not over."""
    same = (job["metadata"].get("annotations") or {}).get(INPUTS) == inputs
    over = condition(job, "Failed", "Complete") is not None
    return same and not over and "deletionTimestamp" not in job["metadata"]


def _remove(site: Site, job: Json) -> None:
    """Delete a job and wait until its name is free and its pods have ended."""
    head, began = job["metadata"], site.clock()
    objects.delete(site.api, JOB, site.namespace, head["name"], uid=head["uid"])
    while True:
        there = objects.read(site.api, JOB, site.namespace, head["name"])
        gone = there is None or there["metadata"]["uid"] != head["uid"]
        left = [p for p in _pods(site, job) if _is_alive(p)]
        if gone and not left:
            return
        if site.clock() - began > REMOVAL_SECONDS:
            raise FindingsError([_stuck(site, head["name"], left)])
        site.sleep(LOOK_SECONDS)


def _pods(site: Site, job: Json) -> list[Json]:
    """The pods of this very job; those of one before it of the same name are not meant."""
    selector = f"batch.kubernetes.io/job-name={job['metadata']['name']}"
    found, _ = objects.list_all(site.api, POD, site.namespace, selector)
    return list(objects.owned_by(found, job["metadata"]["uid"]))


def _is_alive(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _exit_codes(pods: list[Json]) -> frozenset[int]:
    """How the containers of pods that failed have ended."""
    ends = [(c.get("state") or {}).get("terminated") for p in pods for c in container_statuses(p)]
    return frozenset(int(end.get("exitCode") or 0) for end in ends if end)


def _last_json(site: Site, job: Json) -> dict[str, Any]:
    """The JSON that the pod of a job has printed last."""
    for pod in _pods(site, job):
        head = pod["metadata"]
        if (pod.get("status") or {}).get("phase") == "Succeeded":
            log = ContainerLog(site.api, site.namespace, head["name"], head["uid"], CONTAINER)
            lines = [line.text for line in log.lines()]
            # What libraries print before it may have braces too, but not alone in a line.
            for start in (number for number, line in enumerate(lines) if line.strip() == "{"):
                with suppress(ValueError):
                    found: dict[str, Any] = parse_json("\n".join(lines[start:]))
                    return found
    return {}


def _failed(site: Site, name: str, pods: list[Json], said: str) -> Finding:
    """Why a job of a preparation failed, from its pods if they say."""
    why = [f for pod in pods for f in why_not_running(pod, [])]
    rule = f"the job failed: {why[0].rule if why else said or 'no reason is given.'}"
    return Finding(
        RunCode.DATA,
        Severity.ERROR,
        Where(field=f"{JOB.name} {site.namespace}/{name}"),
        rule,
        said,
        f"Read its pods' logs (kubectl logs job/{name} -n {site.namespace}), mend it, and start "
        "the same command again: what is done is kept.",
    )


def _stuck(site: Site, name: str, left: list[Json]) -> Finding:
    """Pods of the job before that do not end."""
    names = ", ".join(str(pod["metadata"]["name"]) for pod in left[:5]) or "the job itself"
    return Finding(
        RunCode.STILL_ENDING,
        Severity.ERROR,
        Where(field=f"{JOB.name} {site.namespace}/{name}"),
        f"what is left of the job before has not ended after {REMOVAL_SECONDS:.0f} s: {names}.",
        str(len(left)),
        "See whether their node answers (kubectl get pods -o wide). Then start it again.",
    )
