# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run commands on a run's volume inside the cluster, and stream their output."""

import atexit
from collections.abc import Callable
from uuid import uuid4

from seatrial.catalog.catalog import Catalog
from seatrial.cluster import objects
from seatrial.cluster.kinds import CONFIG_MAP, POD
from seatrial.cluster.pod_logs import ContainerLog
from seatrial.cluster.transport import Json
from seatrial.codes.runs import RunCode
from seatrial.errors import ExitCode, FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.reader_pod import CONTAINER, VolumeCommand, reader_part, reader_pod
from seatrial.rendering.spec_config import spec_config
from seatrial.runs.namespace import Site
from seatrial.runs.objects import create_once, delete_own
from seatrial.runs.status.container_reasons import why_not_running

START_SECONDS = 300.0
"""How long the pod may take to start before the command fails with the reason."""
EXPORT_START_SECONDS = 1800.0
"""The same for commands that need the engine: its image is large, or it is installed first."""
LOOK_SECONDS = 1.0


def read_inside(
    site: Site,
    plan: Plan,
    catalog: Catalog,
    command: VolumeCommand,
    say: Callable[[str], None],
) -> int:
    """Run one command on the run's volume in a pod. Return its exit code.

    The pod and its spec are always deleted. No other object of the run changes.
    """
    scene = scene_of(plan, catalog, Attempt())
    run = plan.spec.name
    number = uuid4().hex[:8]
    made = reader_pod(scene, command, number)
    name = made["metadata"]["name"]

    def remove() -> None:
        for kind in (POD, CONFIG_MAP):
            delete_own(site, run, kind, name)

    # A caller may follow in a thread, which gets no time to clean up when the process exits.
    atexit.register(remove)
    try:
        create_once(site, run, spec_config(scene, reader_part(number)))
        create_once(site, run, made)
        patience = EXPORT_START_SECONDS if command.reading.needs_engine else START_SECONDS
        pod = _started(site, name, patience)
        log = ContainerLog(site.api, site.namespace, name, pod["metadata"]["uid"], CONTAINER)
        for line in log.lines(follow=True):
            say(line.text)
        return _exit_code(site, name)
    finally:
        atexit.unregister(remove)
        remove()


def _started(site: Site, name: str, patience: float) -> Json:
    """Wait until the pod runs or has exited. Raises with the reason if it does not start."""
    began = site.clock()
    while True:
        pod = objects.read(site.api, POD, site.namespace, name)
        if pod is not None and (pod.get("status") or {}).get("phase", "Pending") != "Pending":
            return pod
        if pod is None or site.clock() - began > patience:
            raise FindingsError(_reasons(site, name, pod))
        site.sleep(LOOK_SECONDS)


def _reasons(site: Site, name: str, pod: Json | None) -> list[Finding]:
    """Report why the pod does not start."""
    conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
    said = next((c.get("message", "") for c in conditions if c.get("status") == "False"), "")
    rule = f"the reader pod does not start: {said or 'Kubernetes reports no reason'}."
    fix = "Check its image (cluster.preparation.image, or cluster.image for exports) and volume."
    where = Where(field=f"{POD.name} {site.namespace}/{name}")
    plain = Finding(RunCode.READER, Severity.ERROR, where, rule, said, fix)
    return list(why_not_running(pod, [])) or [plain] if pod else [plain]


def _exit_code(site: Site, name: str) -> int:
    """Return the command's exit code."""
    for _ in range(30):
        pod = objects.read(site.api, POD, site.namespace, name) or {}
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (status.get("state") or {}).get("terminated")
            if ended is not None:
                return int(ended.get("exitCode") or 0)
        site.sleep(LOOK_SECONDS)
    return ExitCode.CLUSTER
