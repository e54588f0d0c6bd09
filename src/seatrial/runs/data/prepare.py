# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Prepare data in pods: freeze a task list, run the tasks in pods, and assemble the results.

It submits the three jobs of `render --part data`, one after the other. Each has a fixed name, so
rerunning the command continues after any interruption. An active job is reused if its inputs are
the same. A finished job is not, because its corpus or its files may have changed. Completed tasks
are recorded next to the data, and the next job skips them.
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
from seatrial.naming import PART_SEPARATOR, older_part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.context import scene_of
from seatrial.rendering.data_jobs import BAD_USAGE, INPUTS
from seatrial.rendering.names import RUN_LABEL
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
"""How often to explain why a job is waiting. Reading pods, events and nodes is expensive."""
GIVE_UP_SECONDS = 600.0
"""How long a permanent problem may last before the wait fails."""
LASTING = (RunCode.IMAGE, RunCode.SETTINGS, RunCode.VOLUME)
"""Problems that waiting does not solve, unlike a full cluster or queue."""
_IMAGE_FIELD = re.compile(r"\bcluster\.image\b")


@dataclass(slots=True)
class WaitingJob:
    """The reasons why a job is waiting, over time."""

    site: Site
    _looked: float | None = None
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)

    def is_due(self, job: Json) -> bool:
        """True if it is time to look again. False while all pods are running."""
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
        """Report each lasting reason once. Raise the ones that waiting does not solve."""
        now, found = self.site.clock(), self._reasons(job, pods)
        held = {(each.code, each.rule): each for each in found}
        self._since = {key: self._since.get(key, now) for key in held}
        for key, finding in held.items():
            # Do not report short waits, such as a pod that is about to be scheduled.
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
        """Return the reasons, with the fields of data preparation."""
        site, name = self.site, str(job["metadata"]["name"])
        # The operator does not matter: Kubernetes runs the job itself.
        found = FoundJob(Operator.AUTO, JOB, {**job, "kind": JOB.name})
        seen = observe_around(site.api, site.namespace, name, Ledger(), found, tuple(pods))
        return [
            replace(each, fix=_IMAGE_FIELD.sub("cluster.preparation.image", each.fix))
            for each in reasons(seen)
            if each.severity is Severity.ERROR or each.code == RunCode.QUEUE
        ]


LOOK_SECONDS = 2.0
"""The polling interval of a job."""
REMOVAL_SECONDS = 300.0
"""How long the pods of a deleted job may take to exit."""
CONTAINER = "prepare"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a preparation."""

    step: str
    """The current step: one of three."""
    done: int
    """Succeeded pods."""
    tasks: int
    """The total number of pods."""


Tell = Callable[[JobProgress], None]
"""A progress callback."""


class FailedJobError(FindingsError):
    """A data preparation job failed. `codes` has the exit codes of its pods."""

    def __init__(self, finding: Finding, codes: frozenset[int]) -> None:
        super().__init__([finding])
        self.codes = codes


def prepare_on_cluster(
    site: Site, plan: Plan, catalog: Catalog, place: Place, tell: Tell = lambda _: None
) -> dict[str, Any]:
    """Prepare the data of a plan in pods. Return the JSON output of the last step."""
    attempt = Attempt(code_digest=own_digest())
    made = render(plan, catalog, Part.DATA, attempt, place).manifests
    _refuse_warnings(data_findings(scene_of(plan, catalog, attempt), place))
    *needed, listing, tasks, assembly = made
    taken = foreign_objects(site, plan.spec.name, names_of(made))
    if taken:
        raise FindingsError(taken)
    for manifest in needed:
        create_or_apply(site, plan.spec.name, manifest)
    if _tasks_left(site, listing, tell):
        _run(site, tasks, tell, "tasks")
    ended = _run(site, assembly, tell, "assembling")
    return _last_json(site, ended)


def _refuse_warnings(found: list[Finding]) -> None:
    """Reject an image that cannot be pulled. In rendered manifests, this is only a warning."""
    unusable = [each for each in found if each.code == RenderCode.IMAGE]
    if unusable:
        raise FindingsError([replace(each, severity=Severity.ERROR) for each in unusable])


def _tasks_left(site: Site, listing: Json, tell: Tell) -> int:
    """Freeze the task list and return the number of tasks without a record.

    0 if the dataset already exists; the last step verifies it.
    """
    try:
        job = _run(site, listing, tell, "listing")
    except FailedJobError as error:
        # The job exits with this code if the dataset exists. The last step reports any other usage
        # error.
        if BAD_USAGE in error.codes:
            return 0
        raise
    told = _last_json(site, job)
    try:
        return int(told["tasks"]) - int(told["done"])
    except (KeyError, ValueError, TypeError):
        name = job["metadata"]["name"]
        said = "its pod was deleted before its output was read"
        raise FindingsError([_failed(site, name, [], said)]) from None


def _run(site: Site, job: Json, tell: Tell, step: str) -> Json:
    """Run a job to completion: an active one with the same inputs, or a new one."""
    name, run = job["metadata"]["name"], job["metadata"]["labels"][RUN_LABEL]
    _remove_older(site, run, name)
    there = own_object(site, run, job)
    if there is not None and not _goes_on(there, job["metadata"]["annotations"][INPUTS]):
        _remove(site, there)
        there = None
    if there is None:
        # It may exist: created by a request whose response was lost, or by another call with this
        # spec.
        create_once(site, run, job)
    waiting = WaitingJob(site)
    while True:
        found = objects.read(site.api, JOB, site.namespace, name)
        if found is None:
            raise FindingsError([_failed(site, name, [], "it was deleted")])
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
    """Delete the job that an earlier version of Seatrial created under a different name."""
    older = older_part_name(run, name.rpartition(PART_SEPARATOR)[2])
    there = objects.read(site.api, JOB, site.namespace, older)
    if there is not None and is_own(site, run, there):
        _remove(site, there)


def _goes_on(job: Json, inputs: str) -> bool:
    """True if the existing job has these inputs and is not finished."""
    same = (job["metadata"].get("annotations") or {}).get(INPUTS) == inputs
    over = condition(job, "Failed", "Complete") is not None
    return same and not over and "deletionTimestamp" not in job["metadata"]


def _remove(site: Site, job: Json) -> None:
    """Delete a job, and wait until its name is free and its pods have exited."""
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
    """Return the pods of this job, not of an earlier one with the same name."""
    selector = f"batch.kubernetes.io/job-name={job['metadata']['name']}"
    found, _ = objects.list_all(site.api, POD, site.namespace, selector)
    return list(objects.owned_by(found, job["metadata"]["uid"]))


def _is_alive(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _exit_codes(pods: list[Json]) -> frozenset[int]:
    """Return the exit codes of the pods' containers."""
    ends = [(c.get("state") or {}).get("terminated") for p in pods for c in container_statuses(p)]
    return frozenset(int(end.get("exitCode") or 0) for end in ends if end)


def _last_json(site: Site, job: Json) -> dict[str, Any]:
    """Return the last JSON that a job's pod printed."""
    for pod in _pods(site, job):
        head = pod["metadata"]
        if (pod.get("status") or {}).get("phase") == "Succeeded":
            log = ContainerLog(site.api, site.namespace, head["name"], head["uid"], CONTAINER)
            lines = [line.text for line in log.lines()]
            # Libraries may print braces before it, but not alone on a line.
            for start in (number for number, line in enumerate(lines) if line.strip() == "{"):
                with suppress(ValueError):
                    found: dict[str, Any] = parse_json("\n".join(lines[start:]))
                    return found
    return {}


def _failed(site: Site, name: str, pods: list[Json], said: str) -> Finding:
    """Report why a preparation job failed, with the reason from its pods if available."""
    why = [f for pod in pods for f in why_not_running(pod, [])]
    rule = f"the job failed: {why[0].rule if why else said or 'Kubernetes reports no reason.'}"
    return Finding(
        RunCode.DATA,
        Severity.ERROR,
        Where(field=f"{JOB.name} {site.namespace}/{name}"),
        rule,
        said,
        f"Read the logs (kubectl logs job/{name} -n {site.namespace}), fix the problem, and rerun "
        "this command: completed tasks are kept.",
    )


def _stuck(site: Site, name: str, left: list[Json]) -> Finding:
    """Report pods of the previous job that do not exit."""
    names = ", ".join(str(pod["metadata"]["name"]) for pod in left[:5]) or "the job itself"
    return Finding(
        RunCode.STILL_ENDING,
        Severity.ERROR,
        Where(field=f"{JOB.name} {site.namespace}/{name}"),
        f"the previous job was not deleted within {REMOVAL_SECONDS:.0f} s. Still present: {names}.",
        str(len(left)),
        "Check that the pods' nodes respond (kubectl get pods -o wide), then rerun this command.",
    )
