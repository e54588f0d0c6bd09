# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A command line whose cluster is an API server in memory, for the pages.

    python -m tests.unit.docs.stand_in_cluster SCENE launch run.yaml

runs the command as it is; only the connection leads to the server of the tests, which keeps its
objects in a file of the directory. SCENE says what operators and nodes have made of the jobs that
are there: `nothing yet`, `all pods run`, or `no node offers RESOURCE`; or that somebody else was
there first: `Helm has the policy NAME`. It is 03:12 when something
is launched and 03:18 when somebody looks.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from seatrial.cli.main import main as seatrial
from seatrial.cluster.transport import Json
from seatrial.runs.launch import connect
from seatrial.runs.namespace import Site
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api
from tests.unit.runs.fake_cluster import jobs, pod_of, running

KEPT = Path(".stand-in-cluster.json")
NOT_OFFERED = "no node offers "
HELM_POLICY = "Helm has the policy "
CLOCKS = (
    "seatrial.runs.namespace",
    "seatrial.cli.status",
    "seatrial.cli.list",
    "seatrial.cli.wait",
)
"""The modules that look at the clock."""


class StandIn:
    """The server in memory, and the connection that leads to it."""

    def __init__(self) -> None:
        self.server, self._time = FakeTransport(), FakeTime()
        # No cluster lacks it.
        self.server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
        self._time.on_sleep = lambda: _end_orphans(self.server)

    def act_out(self, scene: str) -> None:
        """Make what operators and nodes would have made of the jobs that are there."""
        if scene.startswith(HELM_POLICY):
            self.server.put(_policy_of_helm(scene.removeprefix(HELM_POLICY)))
            scene = "nothing yet"
        for job in jobs(self.server):
            _act_out(scene, self.server, job)

    @contextmanager
    def reached(self, *, launching: bool) -> Iterator[None]:
        """Let connections lead here. The clock stands still."""

        def reach(namespace: str = "", **_: Any) -> Site:
            api = fake_api(self.server, self._time)
            return Site(api, namespace or "default", sleep=self._time.sleep, clock=self._time.clock)

        clock = _clock(12 if launching else 18)
        with ExitStack() as stack:
            stack.enter_context(patch.object(connect, "connect", reach))
            for name in CLOCKS:
                stack.enter_context(patch.object(import_module(name), "datetime", clock))
            yield


def main() -> None:
    """Run one command."""
    scene, sys.argv = sys.argv[1], ["seatrial", *sys.argv[2:]]
    cluster = StandIn()
    if KEPT.exists():
        for item in json.loads(KEPT.read_text(encoding="utf-8")):
            cluster.server.put(item)
    cluster.act_out(scene)
    with cluster.reached(launching=sys.argv[1] == "launch"):
        try:
            seatrial()
        finally:
            KEPT.write_text(json.dumps(list(cluster.server.objects.values())), encoding="utf-8")


def _policy_of_helm(name: str) -> Json:
    """A network policy that a chart of the platform team has installed."""
    notes = {
        "meta.helm.sh/release-name": "baseline",
        "meta.helm.sh/release-namespace": "platform",
    }
    head = {"name": name, "namespace": "default", "annotations": notes}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": head}


def _clock(minute: int) -> type[datetime]:
    """A clock that stands still."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime(2026, 11, 15, 3, minute, tzinfo=tz)

    return Clock


def _act_out(scene: str, server: FakeTransport, job: Json) -> None:
    """Make what the operator, the scheduler and the nodes would have made of a job."""
    replicas = job["spec"]["pytorchReplicaSpecs"]
    pods = sum(role["replicas"] for role in replicas.values())
    resource = scene.removeprefix(NOT_OFFERED)
    if scene == "nothing yet":
        return
    if scene == "all pods run":
        for index in range(pods):
            server.put(pod_of(job, index, **running()))
        return
    if resource == scene:
        raise SystemExit(f"a page asks for a cluster in which {scene!r}; that is not known.")
    said = f"0/{pods} nodes are available: {pods} Insufficient {resource}."
    refused = {"type": "PodScheduled", "status": "False", "message": said}
    for index in range(pods):
        pod = pod_of(job, index, conditions=[refused])
        server.put(pod)
        server.put(_node(f"node-{index}", pod, resource))


def _end_orphans(server: FakeTransport) -> None:
    """Let pods end whose job is gone, as the collector of garbage would."""
    if not jobs(server):
        for key in [key for key in server.objects if key[0] == "pods"]:
            del server.objects[key]


def _node(name: str, pod: Json, lacking: str) -> Json:
    """A node of the type that the pod asks for, without one of its resources."""
    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    labels = {each["key"]: each["values"][0] for each in terms[0]["matchExpressions"]}
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    offered = {key: value for key, value in limits.items() if key != lacking}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": offered},
    }


if __name__ == "__main__":
    main()
