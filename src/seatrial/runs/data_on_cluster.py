# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Preparing data in pods: a list is frozen, each task is a pod, and the parts are put together.

Three jobs, one after the other. Each can be found again by its name, so that the same command goes
on after any end. A job that goes on is trusted when it was made from the same inputs; one that is
over is not, for its corpus or its files may be others by now. What is done stays done by the
records beside the data, which the next job reads.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.cluster import objects
from seatrial.cluster.errors import ConflictError
from seatrial.cluster.kinds import JOB, POD
from seatrial.cluster.pod_logs import ContainerLog
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.hashing import digest
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.data_jobs import (
    BAD_USAGE,
    TaskList,
    assembly_job,
    indexed_job,
    listing_job,
)
from seatrial.rendering.names import spec_digest
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import Place, data_findings
from seatrial.rendering.scene import Scene, scene_of
from seatrial.runs.codes import RunCode
from seatrial.runs.job_state import condition
from seatrial.runs.own_files import own_digest
from seatrial.runs.pod_reasons import container_statuses, why_not_running
from seatrial.runs.site import Site
from seatrial.runs.waiting_job import WaitingJob

LOOK_SECONDS = 2.0
"""How often a job is looked at."""
REMOVAL_SECONDS = 300.0
"""How long pods of a job that was deleted may take to end."""
CONTAINER = "prepare"
INPUTS = "seatrial.dev/inputs-digest"
"""The annotation with the digest of what a job was made from."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a preparation is."""

    step: str
    """Which of the three steps it is in, in words."""
    done: int
    """Pods that have succeeded."""
    tasks: int
    """Pods that there will be."""


Tell = Callable[[Progress], None]
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
    for manifest in needed:
        objects.apply(site.api, manifest)
    spec = spec_digest(plan.spec)
    work = _listed(site, scene, spec, tell)
    if work is not None and work.done < work.tasks:
        tasks = indexed_job(scene, TaskList(work.address, work.tasks))
        _run(site, _marked(tasks, spec), tell, "tasks")
    ended = _run(site, _marked(assembly_job(scene), spec), tell, "putting together")
    return _last_json(site, ended)


def _refuse_warnings(found: list[Finding]) -> None:
    """Refuse what manifests are only warned of: nobody changes these before they are submitted."""
    if found:
        raise FindingsError([replace(each, severity=Severity.ERROR) for each in found])


@dataclass(frozen=True, slots=True)
class _Listed:
    """A frozen list, and how much of it is done."""

    address: str
    tasks: int
    done: int


def _listed(site: Site, scene: Scene, spec: str, tell: Tell) -> _Listed | None:
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
        return _Listed(str(told["address"]), int(told["tasks"]), int(told["done"]))
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
    name = job["metadata"]["name"]
    there = objects.read(site.api, JOB, site.namespace, name)
    if there is not None and not _goes_on(there, job["metadata"]["annotations"][INPUTS]):
        _remove(site, there)
        there = None
    if there is None:
        # It may be there: made by a try whose answer was lost, or by another with the same spec.
        with suppress(ConflictError):
            objects.create(site.api, job)
    waiting = WaitingJob(site)
    while True:
        found = objects.read(site.api, JOB, site.namespace, name)
        if found is None:
            raise FindingsError([_failed(site, name, [], "somebody has deleted it")])
        status, tasks = found.get("status") or {}, int(found["spec"].get("completions") or 1)
        tell(Progress(step, int(status.get("succeeded") or 0), tasks))
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
                    found: dict[str, Any] = json.loads("\n".join(lines[start:]))
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
