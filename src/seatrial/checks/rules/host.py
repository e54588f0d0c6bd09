# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reasons why a run cannot be launched on this host with the profile `local`.

`launch` and `check` share these rules. The rules of the plan need no host; the others compare the
plan with the facts about the host.
"""

from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.codes.rendering import RenderCode
from seatrial.codes.runs import RunCode
from seatrial.engines.registry import ENGINES
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.rules import Place, plan_findings, scene_findings
from seatrial.spec.cluster import NO_GPUS

_OF_PODS = (
    *(RenderCode.OPERATOR, RenderCode.OPERATOR_VERSION, RenderCode.DAEMON),
    *(RenderCode.VOLUME, RenderCode.MOUNT, RenderCode.LOCATION, RenderCode.WORKER_LOCK),
)
"""Rules about manifests and volumes, which torchrun on a host does not use."""
_OF_IMAGES = (RenderCode.IMAGE, RenderCode.UNKNOWN_IMAGE)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a run needs from the host that launches it."""

    gpus: int
    """Number of GPUs that NVIDIA's driver reports."""
    has_runtime: bool = True
    """False if the container runtime of the spec is not installed."""
    missing_packages: tuple[str, ...] = ()
    """Packages that the engine needs for this run on GPUs, and that its environment lacks."""


def host_plan_findings(plan: Plan, catalog: Catalog, place: Place) -> list[Finding]:
    """Return the reasons why no host could run a plan with torchrun."""
    scene = scene_of(plan, catalog, Attempt())
    left_out = _OF_PODS if plan.spec.cluster.container else (*_OF_PODS, *_OF_IMAGES)
    found = [*plan_findings(plan, place), *scene_findings(scene, place)]
    found = [finding for finding in found if finding.code not in left_out]
    return [*found, *_several_nodes(plan, place)]


def host_findings(plan: Plan, place: Place, host: HostFacts) -> list[Finding]:
    """Return the reasons why this host cannot run a plan."""
    return [
        *_missing_runtime(plan, place, host),
        *(_missing_gpus(plan, place, host) or _missing_packages(plan, place, host)),
    ]


def _several_nodes(plan: Plan, place: Place) -> list[Finding]:
    nodes, profile = plan.machines.nodes, plan.machines.profile
    if nodes == 1:
        return []
    return [
        Finding(
            RenderCode.OPERATOR,
            Severity.ERROR,
            place("cluster.nodes"),
            f"the profile {profile} runs torchrun on this host only, which is one node. The other "
            "nodes would never join.",
            str(nodes),
            "Use cluster.nodes=1 with more processes_per_node, or a Kubernetes profile.",
        )
    ]


def _missing_runtime(plan: Plan, place: Place, host: HostFacts) -> list[Finding]:
    runtime = plan.spec.cluster.container
    if runtime is None or host.has_runtime:
        return []
    return [
        Finding(
            RunCode.RUNTIME,
            Severity.ERROR,
            place("cluster.container"),
            f"{runtime} is not installed on this host.",
            runtime,
            f"Install {runtime}, or remove cluster.container to use an environment of this host.",
        )
    ]


def _missing_gpus(plan: Plan, place: Place, host: HostFacts) -> list[Finding]:
    machines = plan.machines
    if not machines.accelerator or host.gpus >= machines.processes_per_node:
        return []
    found = "no GPU was" if not host.gpus else f"only {host.gpus} of them were"
    if host.gpus:
        fix = f"On this host, use cluster.processes_per_node={host.gpus} or fewer."
    else:
        fix = (
            f"Run this command on the GPU host, where nvidia-smi lists its GPUs. To train on CPUs "
            f"here, set cluster.accelerator={NO_GPUS}."
        )
    return [
        Finding(
            RunCode.NO_GPU,
            Severity.ERROR,
            place("cluster.accelerator"),
            f"the run needs {machines.processes_per_node} × {machines.accelerator}, but {found} "
            "found on this host.",
            machines.accelerator,
            f"{fix} plan and rehearse need no GPU.",
        )
    ]


def _missing_packages(plan: Plan, place: Place, host: HostFacts) -> list[Finding]:
    machines, engine = plan.machines, ENGINES[plan.spec.engine.name]
    if not machines.accelerator or plan.spec.cluster.container or not host.missing_packages:
        return []
    names = ", ".join(host.missing_packages)
    return [
        Finding(
            RunCode.NO_GPU,
            Severity.ERROR,
            place("cluster.container"),
            f"on GPUs, the layers of this run need {names}, which the environment of "
            f"{engine.title} on this host does not have.",
            names,
            "Train in an image that includes it: set cluster.container=docker (or podman, or "
            f"apptainer). Or install {names} there; seatrial doctor shows the environment.",
        )
    ]
