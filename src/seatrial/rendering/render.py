# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plan -> manifests: the one way from a run to what a cluster is given."""

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
from seatrial.rendering.pytorch_job import pytorch_job
from seatrial.rendering.rules import (
    Place,
    class_findings,
    data_findings,
    plan_findings,
    ray_findings,
    scene_findings,
    secrets_in,
    unnamed_place,
)
from seatrial.rendering.spec_config import spec_config
from seatrial.rendering.train_job import TrainerApi, train_job, trainer_api, training_runtime
from seatrial.spec.cluster import Operator

FIRST = Attempt()


class Part(StrEnum):
    """What can be rendered of a run."""

    RUN = "run"
    """What launching submits: the job and what it needs in its namespace."""
    DATA = "data"
    """The preparation of its data."""
    ADMIN = "admin"
    """What an administrator makes for it: storage class or volume, roles."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """The manifests of a part of a run."""

    part: Part
    """Which part."""
    manifests: tuple[Manifest, ...]
    """The objects, in the order in which they are to be made; the job is the last."""
    findings: tuple[Finding, ...] = ()
    """Warnings."""


def render(
    plan: Plan,
    catalog: Catalog,
    part: Part = Part.RUN,
    attempt: Attempt = FIRST,
    place: Place = unnamed_place,
) -> Rendering:
    """The manifests of a plan; raises FindingsError with every reason when there can be none."""
    found = plan_findings(plan, place)
    if has_errors(found):
        raise FindingsError(found)
    scene = scene_of(plan, catalog, attempt)
    found += scene_findings(scene, place)
    if has_errors(found):
        raise FindingsError(found)
    if part is Part.ADMIN:
        found += class_findings(scene, place)
    if part is Part.DATA:
        found += [*ray_findings(scene, place), *data_findings(scene, place)]
    manifests = {Part.RUN: run_manifests, Part.DATA: data_manifests, Part.ADMIN: admin_manifests}
    made = tuple(manifests[part](scene))
    _refuse_secrets(made, place)
    return Rendering(part, made, tuple(found))


def run_manifests(scene: Scene) -> list[Manifest]:
    """What a launch submits, in order: what the job needs first."""
    plan = scene.plan
    made = [spec_config(scene)]
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
    """The job of the operator, after what only it needs."""
    operator = scene.plan.machines.operator
    if operator is Operator.TRAINJOB:
        api = trainer_api(scene.plan.spec.cluster.operator_version) or TrainerApi.V2_2
        return [training_runtime(scene, api), train_job(scene, api)]
    if operator is Operator.HYPERPOD:
        return [hyperpod_job(scene)]
    meets = scene.plan.spec.cluster.preflight or scene.plan.machines.nodes > 1
    meeting = [network.meeting_service(scene)] if meets else []
    return [*meeting, pytorch_job(scene)]


def data_manifests(scene: Scene) -> list[Manifest]:
    """The preparation of data by Ray, with the volume that it writes to."""
    made = [spec_config(scene)]
    if scene.plan.spec.cluster.identity is not None:
        made.append(access.service_account(scene))
    if scene.tier is not None:
        made.append(storage.volume_claim(scene.plan, scene.tier))
    made += [network.network_policies(scene)[0], network.ray_policy(scene)]
    return [*made, data_jobs.ray_job(scene)]


def admin_manifests(scene: Scene) -> list[Manifest]:
    """What needs rights over the whole cluster, or gives rights."""
    plan, made = scene.plan, []
    if scene.tier is not None and plan.spec.cluster.storage.volume is not None:
        made.append(storage.static_volume(plan, scene.tier))
    elif scene.tier is not None:
        parameters = dict(plan.spec.cluster.storage.parameters)
        made.append(storage.storage_class(scene.tier, parameters))
    return [*made, access.launcher_role(plan), access.observer_role()]


def _refuse_secrets(manifests: tuple[Manifest, ...], place: Place) -> None:
    """The last line of defence: nothing that looks like a secret leaves here."""
    found = [
        Finding(
            RenderCode.SECRET,
            Severity.ERROR,
            place(""),
            f"{where} would hold something that looks like a secret.",
            "",
            "Give it as a Kubernetes secret, through cluster.secrets.",
        )
        for where in secrets_in(manifests)
    ]
    if found:
        raise FindingsError(found)
