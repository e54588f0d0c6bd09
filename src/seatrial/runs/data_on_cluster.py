# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Preparing data in pods: a list is frozen, each task is a pod, and the parts are put together.

Three jobs, one after the other. Each can be found again by its name, so that the same command goes
on after any end: what is done stays done, by the records beside the data.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.cluster import objects
from seatrial.cluster.errors import ConflictError
from seatrial.cluster.kinds import JOB, POD
from seatrial.cluster.pod_logs import ContainerLog
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.data_jobs import TaskList, assembly_job, indexed_job, listing_job
from seatrial.rendering.names import spec_digest
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import Place
from seatrial.rendering.scene import scene_of
from seatrial.runs.codes import RunCode
from seatrial.runs.job_state import condition
from seatrial.runs.own_files import own_digest
from seatrial.runs.pod_reasons import why_not_running
from seatrial.runs.site import Site

LOOK_SECONDS = 2.0
"""How often a job is looked at."""
CONTAINER = "prepare"
DIGEST = "seatrial.dev/spec-digest"


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


def prepare_on_cluster(
    site: Site, plan: Plan, catalog: Catalog, place: Place, tell: Tell = lambda _: None
) -> dict[str, Any]:
    """Prepare the data of a plan in pods; what the last step says of them, as plain data."""
    *needed, _ = render(
        plan, catalog, Part.DATA, Attempt(code_digest=own_digest()), place
    ).manifests
    scene = scene_of(plan, catalog, Attempt(code_digest=own_digest()))
    for manifest in needed:
        objects.apply(site.api, manifest)
    digest = spec_digest(plan.spec)
    listed = _run(site, _marked(listing_job(scene), digest), tell, "listing")
    work = _last_json(site, listed)
    if "tasks" in work and work.get("address"):
        tasks = TaskList(str(work["address"]), int(work["tasks"]))
        _run(site, _marked(indexed_job(scene, tasks), digest), tell, "tasks")
    ended = _run(site, _marked(assembly_job(scene), digest), tell, "putting together")
    return _last_json(site, ended)


def _marked(job: Json, digest: str) -> Json:
    """The job, with the spec that it is for."""
    head = job["metadata"] | {"annotations": {DIGEST: digest}}
    return job | {"metadata": head}


def _run(site: Site, job: Json, tell: Tell, step: str) -> Json:
    """Bring a job to its end: the one that is there, if it is for the same spec, or a new one."""
    name = job["metadata"]["name"]
    wanted = job["metadata"]["annotations"][DIGEST]
    there = objects.read(site.api, JOB, site.namespace, name)
    if there is not None and not _goes_on(there, wanted):
        _remove(site, there)
        there = None
    if there is None:
        # It may be there: made by a try whose answer was lost, or by another with the same spec.
        with suppress(ConflictError):
            objects.create(site.api, job)
    while True:
        found = objects.read(site.api, JOB, site.namespace, name)
        if found is None:
            raise FindingsError([_failed(site, name, "somebody has deleted it")])
        status, tasks = found.get("status") or {}, int(found["spec"].get("completions") or 1)
        tell(Progress(step, int(status.get("succeeded") or 0), tasks))
        if condition(found, "Complete"):
            return found
        failed = condition(found, "Failed")
        if failed is not None:
            raise FindingsError([_failed(site, name, str(failed.get("message") or ""))])
        site.sleep(LOOK_SECONDS)


def _goes_on(job: Json, wanted: str) -> bool:
    """Whether a job that is there is for this spec and has not failed."""
    same = (job["metadata"].get("annotations") or {}).get(DIGEST) == wanted
    return same and condition(job, "Failed") is None and "deletionTimestamp" not in job["metadata"]


def _remove(site: Site, job: Json) -> None:
    """Delete a job and wait until its name is free and its pods have ended."""
    head = job["metadata"]
    objects.delete(site.api, JOB, site.namespace, head["name"], uid=head["uid"])
    while True:
        there = objects.read(site.api, JOB, site.namespace, head["name"])
        gone = there is None or there["metadata"]["uid"] != head["uid"]
        if gone and not [p for p in _pods(site, head["name"]) if _is_alive(p)]:
            return
        site.sleep(LOOK_SECONDS)


def _pods(site: Site, job: str) -> list[Json]:
    return objects.list_all(site.api, POD, site.namespace, f"batch.kubernetes.io/job-name={job}")[0]


def _is_alive(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _last_json(site: Site, job: Json) -> dict[str, Any]:
    """The JSON that the pod of a job has printed last."""
    for pod in _pods(site, job["metadata"]["name"]):
        head = pod["metadata"]
        if (pod.get("status") or {}).get("phase") == "Succeeded":
            log = ContainerLog(site.api, site.namespace, head["name"], head["uid"], CONTAINER)
            text = "\n".join(line.text for line in log.lines())
            start = text.find("{")
            try:
                found: dict[str, Any] = json.loads(text[start:])
            except ValueError:
                continue
            return found
    return {}


def _failed(site: Site, name: str, said: str) -> Finding:
    """Why a job of a preparation failed, from its pods if they say."""
    why = [f for pod in _pods(site, name) for f in why_not_running(pod, [])]
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
