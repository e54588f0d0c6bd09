# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ending a job, and knowing that its processes have ended."""

from collections.abc import Sequence

from seatrial.cluster import objects
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.runs.codes import RunCode
from seatrial.runs.observe import FoundJob, training_pods
from seatrial.runs.site import Site

LOOK_SECONDS = 1.0
"""How often it is looked whether pods are gone."""
SPARE_SECONDS = 120.0
"""What pods get on top of their own grace before they are reported as stuck."""
TELL_SECONDS = 10.0
"""A wait that is longer is told."""


def end_job(site: Site, job: FoundJob, pods: Sequence[Json]) -> None:
    """Delete a job and wait until none of its pods runs any more.

    Two attempts of one run must never write to its checkpoints at the same time.
    """
    name = str(job.object["metadata"]["name"])
    # In the background: what counts are the pods, which are waited for below.
    objects.delete(site.api, job.kind, site.namespace, name, uid=job.uid)
    graces = [float(pod["spec"].get("terminationGracePeriodSeconds") or 30) for pod in pods]
    wait_until_gone(site, job, max(graces, default=30.0) + SPARE_SECONDS)


def wait_until_gone(site: Site, job: FoundJob, limit: float) -> None:
    """Wait until a job and its pods are gone; raises when they stay too long."""
    name = str(job.object["metadata"]["name"])
    began, told = site.clock(), False
    while True:
        left = _left(site, job, name)
        if not left:
            return
        waited = site.clock() - began
        if waited > limit:
            raise FindingsError([_stuck(site, left, waited)])
        if waited > TELL_SECONDS and not told:
            told = True
            site.tell(f"{name} is saving and ending: {', '.join(left[:3])}; up to {limit:.0f} s.")
        site.sleep(LOOK_SECONDS)


def _left(site: Site, job: FoundJob, name: str) -> list[str]:
    """What is still there of a job: pods that have not ended, and the job itself."""
    pods = [
        str(pod["metadata"]["name"])
        for pod in training_pods(site.api, site.namespace, name, job.attempt)
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
    there = objects.read(site.api, job.kind, site.namespace, name)
    is_same = there is not None and there["metadata"]["uid"] == job.uid
    return [*pods, *([f"{job.kind.name} {name}"] if is_same else [])]


def _stuck(site: Site, left: list[str], waited: float) -> Finding:
    return Finding(
        RunCode.STILL_ENDING,
        Severity.ERROR,
        Where(field=f"{site.namespace}/{left[0]}"),
        f"{len(left)} of the attempt before are still there after {waited:.0f} s: "
        f"{', '.join(left[:5])}.",
        str(len(left)),
        "See whether their node answers (kubectl get pods -o wide); a pod of a lost node ends "
        "when the node is removed. Then try again.",
    )
