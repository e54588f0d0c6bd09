# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Render a plan as manifests."""

from dataclasses import dataclass
from enum import StrEnum

from seatrial.catalog.catalog import Catalog
from seatrial.codes.rendering import RenderCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.plan import Plan
from seatrial.rendering import access, data_jobs, monitoring, network, storage, tensorboard
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.hyperpod_job import hyperpod_job
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.names import Component
from seatrial.rendering.nccl_topology import topology_config
from seatrial.rendering.pytorch_job import pytorch_job
from seatrial.rendering.rules import (
    Place,
    class_findings,
    data_findings,
    gang_findings,
    plan_findings,
    ray_findings,
    scene_findings,
    secrets_in,
    unnamed_place,
)
from seatrial.rendering.spec_config import DATA_PART, spec_config
from seatrial.rendering.train_job import TrainerApi, train_job, trainer_api, training_runtime
from seatrial.spec.cluster import Operator

FIRST = Attempt()


class Part(StrEnum):
    """The parts of a run that can be rendered."""

    RUN = "run"
    """Objects that `launch` submits: the job and its dependencies in the namespace."""
    DATA = "data"
    """The data preparation: the objects that `data prepare --on kubernetes` submits."""
    DATA_RAY = "data-ray"
    """The data preparation as a RayJob, for clusters with KubeRay."""
    ADMIN = "admin"
    """Objects that an administrator creates: storage class or volume, and roles."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """The manifests of one part of a run."""

    part: Part
    """The rendered part of the run."""
    manifests: tuple[Manifest, ...]
    """The objects, in the order of creation. The job is the last."""
    findings: tuple[Finding, ...] = ()
    """Warnings and notes."""


def render(
    plan: Plan,
    catalog: Catalog,
    part: Part = Part.RUN,
    attempt: Attempt = FIRST,
    place: Place = unnamed_place,
) -> Rendering:
    """Render a plan. Raises FindingsError with all problems if it cannot be rendered."""
    found = plan_findings(plan, place)
    if has_errors(found):
        raise FindingsError(found)
    scene = scene_of(plan, catalog, attempt)
    found += scene_findings(scene, place)
    if has_errors(found):
        raise FindingsError(found)
    if part is Part.RUN:
        found += gang_findings(scene, place)
    if part is Part.ADMIN:
        found += class_findings(scene, place)
    if part is Part.DATA_RAY:
        found += ray_findings(scene, place)
    if part in (Part.DATA, Part.DATA_RAY):
        found += data_findings(scene, place)
    made = tuple(_MANIFESTS[part](scene))
    _refuse_secrets(made, place)
    return Rendering(part, made, tuple(found))


def run_manifests(scene: Scene) -> list[Manifest]:
    """Return the objects that `launch` submits. Dependencies come first."""
    plan = scene.plan
    made = [spec_config(scene), *topology_config(scene)]
    if plan.spec.cluster.identity is not None:
        made.append(access.service_account(scene))
    if scene.tier is not None:
        made.append(storage.volume_claim(plan, scene.tier))
    made += network.network_policies(scene)
    if plan.spec.monitoring.tensorboard:
        made += tensorboard.tensorboard(scene)
    made += monitoring.pod_monitors(scene)
    return [*made, *job_manifests(scene)]


def job_manifests(scene: Scene) -> list[Manifest]:
    """Return the operator's job, preceded by objects that only it needs."""
    operator = scene.plan.machines.operator
    if operator is Operator.TRAINJOB:
        api = trainer_api(scene.plan.spec.cluster.operator_version) or TrainerApi.V2_2
        return [training_runtime(scene, api), train_job(scene, api)]
    if operator is Operator.HYPERPOD:
        return [hyperpod_job(scene)]
    if operator is not Operator.PYTORCHJOB:
        raise ValueError(f"{operator} has no job: `plan_findings` must reject it.")
    meets = scene.plan.spec.cluster.preflight or scene.plan.machines.nodes > 1
    meeting = [network.meeting_service(scene)] if meets else []
    return [*meeting, pytorch_job(scene)]


def data_manifests(scene: Scene) -> list[Manifest]:
    """Return the jobs that prepare the data, preceded by the objects that they need."""
    return [*_needed_for_data(scene), *data_jobs.jobs(scene)]


def ray_manifests(scene: Scene) -> list[Manifest]:
    """Return a RayJob that prepares the data, preceded by the objects that it needs."""
    return [*_needed_for_data(scene), network.ray_policy(scene), data_jobs.ray_job(scene)]


def _needed_for_data(scene: Scene) -> list[Manifest]:
    # Not the ConfigMap of the run: the two may be submitted with different overrides.
    made = [spec_config(scene, DATA_PART, Component.DATA)]
    if scene.plan.spec.cluster.identity is not None:
        made.append(access.service_account(scene))
    if scene.tier is not None:
        made.append(storage.volume_claim(scene.plan, scene.tier))
    return [*made, network.network_policies(scene)[0]]


def admin_manifests(scene: Scene) -> list[Manifest]:
    """Return the objects that need or grant cluster-wide permissions."""
    plan, made = scene.plan, []
    if scene.tier is not None and plan.spec.cluster.storage.volume is not None:
        made.append(storage.static_volume(plan, scene.tier))
    elif scene.tier is not None:
        made.append(storage.storage_class(plan, scene.tier))
    return [*made, access.launcher_role(plan), access.observer_role()]


_MANIFESTS = {
    Part.RUN: run_manifests,
    Part.DATA: data_manifests,
    Part.DATA_RAY: ray_manifests,
    Part.ADMIN: admin_manifests,
}


def _refuse_secrets(manifests: tuple[Manifest, ...], place: Place) -> None:
    """Reject manifests with values that look like secrets, as the last line of defence."""
    found = [
        Finding(
            RenderCode.SECRET,
            Severity.ERROR,
            place(""),
            f"{where} would contain a value that looks like a secret.",
            "",
            "Store the value in a Kubernetes secret, and reference it in cluster.secrets.",
        )
        for where in secrets_in(manifests)
    ]
    if found:
        raise FindingsError(found)
