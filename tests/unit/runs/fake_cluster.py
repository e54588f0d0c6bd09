# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A namespace of a cluster in memory, and pods as operators and kubelets write them."""

import copy
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.cluster.transport import Json
from seatrial.rendering.attempt import Attempt, GangChoice, GangScheduler, own_digest
from seatrial.rendering.render import Part, Rendering, render
from seatrial.runs.launch.kubernetes import ClusterBackend
from seatrial.runs.launch.launcher import Confirm, Launched, Wanted
from seatrial.runs.launch.launcher import launch as launch_by
from seatrial.runs.namespace import Site
from tests.conftest import resolved
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api

CATALOG = Catalog()


def site_of(server: FakeTransport, time: FakeTime | None = None) -> Site:
    """The namespace of the tests' own spec."""
    time = time or FakeTime()
    namespace = resolved().spec.cluster.namespace
    return Site(fake_api(server, time), namespace, sleep=time.sleep, clock=time.clock)


def wanted(*overrides: str) -> Wanted:
    """The tests' own spec, to be launched."""
    return Wanted(resolved(*overrides), CATALOG)


def launch(site: Site, run: Wanted, confirm: Confirm) -> Launched:
    """Launch into a namespace."""
    return launch_by(ClusterBackend(site), run, confirm)


def rendered(run: Wanted, submission: str = "") -> Rendering:
    """The manifests of the first attempt."""
    # The fake API server serves the pod groups of coscheduling, and has no queue.
    gang = GangChoice(GangScheduler.COSCHEDULING)
    attempt = Attempt(1, (), own_digest(), submission, gang)
    return render(run.plan, run.catalog, Part.RUN, attempt, run.place)


def jobs(server: FakeTransport) -> list[Json]:
    """All jobs that there are, of any operator."""
    plurals = ("pytorchjobs", "trainjobs", "hyperpodpytorchjobs")
    return [item for (plural, _, _), item in server.objects.items() if plural in plurals]


def set_condition(server: FakeTransport, kind: str, message: str = "") -> None:
    """Let the operator write a condition of the one job."""
    (job,) = jobs(server)
    when = "2026-11-15T04:00:00Z"
    entry = {"type": kind, "status": "True", "message": message, "lastTransitionTime": when}
    job.setdefault("status", {}).setdefault("conditions", []).append(entry)


def pod_of(job: Json, index: int = 0, **status: Any) -> Json:
    """A training pod of a PyTorchJob, as the operator makes it."""
    role = "Master" if index == 0 else "Worker"
    template = copy.deepcopy(job["spec"]["pytorchReplicaSpecs"][role]["template"])
    name = f"{job['metadata']['name']}-{role.lower()}-{max(0, index - 1)}"
    labels = template["metadata"]["labels"] | {
        "training.kubeflow.org/replica-type": role.lower(),
        "training.kubeflow.org/replica-index": str(max(0, index - 1)),
    }
    owner = {
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"].get("uid"),
    }
    head = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": [owner],
    }
    spec = template["spec"] | ({"nodeName": f"node-{index}"} if status.get("phase") else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": head,
        "spec": spec,
        "status": {"phase": "Pending"} | status,
    }


def running() -> dict[str, Any]:
    """The status of a pod that runs."""
    return {
        "phase": "Running",
        "containerStatuses": [{"name": "pytorch", "restartCount": 0, "state": {"running": {}}}],
    }
