# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules for rendering: findings that prevent manifests, and warnings about them."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Any

from seatrial.catalog.node_types import Cloud
from seatrial.codes.rendering import RenderCode
from seatrial.engines.registry import ENGINES
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import GangScheduler
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import forbidding, is_reserved
from seatrial.rendering.expansion import PYTHON
from seatrial.rendering.gang import is_open
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.pod import identity_labels
from seatrial.rendering.scheduling import profile_labels
from seatrial.rendering.security import user_of
from seatrial.rendering.train_job import KNOWN_VERSIONS, TrainerApi, trainer_api
from seatrial.rendering.volumes import LOCK_CONFIG, training_mounts
from seatrial.secrets.redaction import looks_secret
from seatrial.spec.cluster import Gang, Operator
from seatrial.spec.placeholders import has_placeholder
from seatrial.spec.secrets import shown_key
from seatrial.version import VERSION

Place = Callable[[str], Where]
"""Maps a field of the spec to its location. A loaded spec has the line numbers."""

PYTORCHJOB_VERSIONS = ("1.8", "1.9")
"""The Training Operator versions whose CRDs the manifests were checked against."""
_ACCOUNTS = {Cloud.AWS: "arn:", Cloud.GOOGLE: "@"}
"""A substring that an identity of a cloud contains."""


DATA_IMAGE = "cluster.preparation.image"
_WITHOUT_RAY = re.compile(r"(^|/)worker-data([:@]|$)")
"""Seatrial's own data image: it contains Ray's core, but not everything that KubeRay needs."""


def unnamed_place(field_name: str) -> Where:
    """Return the location of a field without file and line."""
    return Where(field=field_name)


@dataclass
class RenderInspection:
    """Collects findings, so that one pass reports everything."""

    place: Place = unnamed_place
    findings: list[Finding] = field(default_factory=list)

    def add(
        self,
        code: RenderCode,
        field_name: str,
        rule: str,
        fix: str,
        value: object = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        self.findings.append(Finding(code, severity, self.place(field_name), rule, str(value), fix))


def plan_findings(plan: Plan, place: Place) -> list[Finding]:
    """Check the operator, which needs no catalog."""
    inspection = RenderInspection(place)
    if plan.machines.operator is Operator.TORCHRUN:
        rule = f"profile {plan.machines.profile} starts torchrun on this host, without manifests."
        fix = "Use a profile with Kubernetes: seatrial catalog list profiles."
        inspection.add(RenderCode.OPERATOR, "cluster.profile", rule, fix, plan.machines.profile)
    return inspection.findings


def scene_findings(scene: Scene, place: Place) -> list[Finding]:
    """Apply every rule, in the order of the spec."""
    inspection = RenderInspection(place)
    _check_operator(scene, inspection)
    _check_taken(scene, inspection)
    _check_fabric(scene, inspection)
    _check_environment(scene, inspection)
    _check_secret_variables(scene, inspection)
    _check_storage(scene, inspection)
    _check_locations(scene, inspection)
    _check_image(scene, inspection)
    _check_identity(scene, inspection)
    _check_scratch(scene, inspection)
    _check_user(scene, inspection)
    _check_mounts(scene, inspection)
    return inspection.findings


def class_findings(scene: Scene, place: Place) -> list[Finding]:
    """Warn about missing parameters of a new storage class. An existing class has them."""
    inspection, storage = RenderInspection(place), scene.plan.spec.cluster.storage
    if scene.tier is not None and storage.volume is None:
        missing = [key for key in scene.tier.required_parameters if key not in storage.parameters]
        if missing:
            rule = f"a new storage class needs {' and '.join(missing)}."
            fix = "Ignore this if the class already exists. Otherwise set them in the "
            fix += "chart's values, or in cluster.storage.parameters."
            where = "cluster.storage.parameters"
            inspection.add(RenderCode.VOLUME, where, rule, fix, severity=Severity.WARNING)
    return inspection.findings


def gang_findings(scene: Scene, place: Place) -> list[Finding]:
    """Report that nothing starts the pods of a run together."""
    inspection = RenderInspection(place)
    if not is_open(scene.plan):
        return []
    nodes, choice = scene.plan.machines.nodes, scene.attempt.gang
    waits = f"the {nodes} pods start one by one, and hold their GPUs while they wait for the others"
    if choice is None:
        rule = (
            f"gang: auto depends on the cluster, so these manifests set no gang scheduler: {waits}."
        )
        fix = "Submit the run with seatrial launch, which uses what the cluster offers, or set "
        fix += "cluster.queue or cluster.gang."
        inspection.add(
            RenderCode.GANG, "cluster.gang", rule, fix, Gang.AUTO, severity=Severity.NOTE
        )
    elif choice.scheduler is GangScheduler.NONE:
        rule = f"the cluster offers no gang scheduler: {waits}."
        fix = "Set cluster.queue to a Kueue queue, install coscheduling or Volcano, or accept this "
        fix += "with cluster.gang=none."
        inspection.add(
            RenderCode.GANG, "cluster.gang", rule, fix, Gang.AUTO, severity=Severity.WARNING
        )
    return inspection.findings


def data_findings(scene: Scene, place: Place) -> list[Finding]:
    """Warn about the image of the pods that prepare text. Training uses a different image.

    These are only warnings, because users may change manifests afterwards, with kustomize for
    instance.
    """
    inspection, name = RenderInspection(place), _data_image(scene)
    if has_text(scene.plan) and not scene.data_image.published:
        rule = f"the data image {name} is not published and cannot be pulled."
        fix = "Build docker/worker-data.Dockerfile (guide: images), push it, and set its reference."
        inspection.add(RenderCode.IMAGE, DATA_IMAGE, rule, fix, name, Severity.WARNING)
    if has_text(scene.plan) and not scene.data_image.is_cataloged:
        holds = f"Seatrial {VERSION} with its extra data"
        _add_unknown(inspection, DATA_IMAGE, name, holds, ("pyarrow", "orjson"))
    return inspection.findings


def ray_findings(scene: Scene, place: Place) -> list[Finding]:
    """Warn about an image without the parts of Ray that a RayJob needs."""
    inspection, name = RenderInspection(place), _data_image(scene)
    if has_text(scene.plan) and _WITHOUT_RAY.search(name):
        rule = f"a RayJob needs ray[default], which {name} lacks."
        fix = "Use --part data: its Jobs need no Ray. Or build an image with ray[default]."
        inspection.add(RenderCode.IMAGE, DATA_IMAGE, rule, fix, name, Severity.WARNING)
    return inspection.findings


def has_text(plan: Plan) -> bool:
    """True if the run has text to prepare before training."""
    return any(source.prepared is None for source in plan.spec.data.sources or ())


def _data_image(scene: Scene) -> str:
    """Return the data image as the spec names it."""
    return scene.plan.spec.cluster.preparation.image or scene.data_image.reference


def _check_operator(scene: Scene, inspection: RenderInspection) -> None:
    cluster, operator = scene.plan.spec.cluster, scene.plan.machines.operator
    version = cluster.operator_version
    known = KNOWN_VERSIONS if operator is Operator.TRAINJOB else PYTORCHJOB_VERSIONS
    if version and operator is Operator.HYPERPOD:
        rule = "HyperPod's job has the same format in every version of its operator."
        fix = "Remove operator_version."
        inspection.add(RenderCode.OPERATOR_VERSION, "cluster.operator_version", rule, fix, version)
    elif version and ".".join(version.split(".")[:2]) not in known:
        rule = f"Seatrial supports {operator} versions {', '.join(known)}."
        fix = f"Use one of these versions; {known[-1]} if the cluster has a newer one."
        inspection.add(RenderCode.OPERATOR_VERSION, "cluster.operator_version", rule, fix, version)
    oldest = operator is Operator.TRAINJOB and trainer_api(version) is TrainerApi.V2_0
    if oldest and cluster.gang is Gang.VOLCANO:
        rule = "Trainer 2.0 does not support Volcano; 2.1 does."
        fix = "Use cluster.gang=coscheduling, or Kueue with cluster.queue."
        inspection.add(RenderCode.OPERATOR, "cluster.gang", rule, fix, cluster.gang)
    if operator is Operator.HYPERPOD and cluster.gang in (Gang.COSCHEDULING, Gang.VOLCANO):
        rule = f"HyperPod does not support {cluster.gang}; it starts pods together with Kueue."
        inspection.add(
            RenderCode.OPERATOR, "cluster.gang", rule, "Set cluster.queue instead.", cluster.gang
        )


def _check_taken(scene: Scene, inspection: RenderInspection) -> None:
    """Reject labels and annotations of the spec that contradict the profile, fabric or storage."""
    cluster, profile = scene.plan.spec.cluster, scene.plan.machines.profile
    set_already = {
        "labels": (identity_labels(scene), "the cloud's workload identity needs"),
        "annotations": (
            scene.fabric.annotations | (scene.tier.pod_annotations if scene.tier else {}),
            "the fabric or the storage tier sets",
        ),
        "node_selector": (profile_labels(scene), f"profile {profile} requires"),
    }
    for name, (theirs, who) in set_already.items():
        for key, value in getattr(cluster, name).items():
            if theirs.get(key, value) == value:
                continue
            fix = "Remove the line."
            if key == scene.profile.node_type_label:
                fix = "Remove the line, and set cluster.node_type."
            rule = f"{who} {key}={theirs[key]}, so it cannot have a different value."
            inspection.add(RenderCode.TAKEN, f"cluster.{name}.{key}", rule, fix, value)
    gpu = scene.profile.gpu_resource
    if gpu in cluster.resources:
        rule = f"Seatrial requests {gpu} for each process of a pod."
        fix = "Remove the line, and set cluster.processes_per_node."
        value = cluster.resources[gpu]
        inspection.add(RenderCode.TAKEN, f"cluster.resources.{gpu}", rule, fix, value)


def _check_scratch(scene: Scene, inspection: RenderInspection) -> None:
    scratch = scene.plan.spec.cluster.scratch
    if scratch is not None and scratch.host_path is not None:
        rule = f"pods mount {scratch.host_path} of the node, which the Pod Security levels baseline"
        rule += " and restricted forbid."
        fix = "Use a namespace with the level privileged, or set cluster.scratch.storage_class."
        where, path = "cluster.scratch.host_path", scratch.host_path
        inspection.add(RenderCode.HOST_PATH, where, rule, fix, path, Severity.NOTE)


def _check_user(scene: Scene, inspection: RenderInspection) -> None:
    """Warn about RDMA without the right to lock memory."""
    user, fabric = user_of(scene), scene.plan.machines.fabric
    if user and scene.fabric.rdma and scene.plan.machines.nodes > 1:
        rule = f"{fabric} locks memory, but Kubernetes grants the capability IPC_LOCK only to root:"
        rule += f" as user {user}, NCCL fails unless the nodes set no limit on locked memory."
        fix = "Remove the line to run as root, or ask an administrator to set LimitMEMLOCK=infinity"
        fix += " for the container runtime."
        where = "cluster.run_as_user"
        inspection.add(RenderCode.RDMA_USER, where, rule, fix, user, Severity.WARNING)


def _check_fabric(scene: Scene, inspection: RenderInspection) -> None:
    if scene.fabric.daemon is not None and scene.share_of_node < 1:
        name, gpus = scene.plan.machines.fabric, scene.node.gpus
        used = scene.plan.machines.processes_per_node
        rule = f"the {scene.fabric.daemon.name} container of {name} serves all {gpus} GPUs of a "
        rule += f"node, so one pod must request all of them; this run uses {used}."
        fix = f"Remove cluster.processes_per_node to use {gpus} GPUs per node, or set "
        fix += "cluster.fabric=none to test without the fabric (slow)."
        inspection.add(RenderCode.DAEMON, "cluster.processes_per_node", rule, fix, used)


def _check_environment(scene: Scene, inspection: RenderInspection) -> None:
    fabric, node_type = scene.plan.machines.fabric, scene.plan.machines.node_type
    for name, value in scene.plan.spec.cluster.env.items():
        where = f"cluster.env.{name}"
        if is_reserved(name):
            rule = f"{name} is set by the launcher; a different value would break the run."
            inspection.add(RenderCode.RESERVED_VARIABLE, where, rule, "Remove the line.", value)
        against = forbidding(scene.fabric, node_type, name, value)
        if against is not None:
            shown = f"{name}={against.value}" if against.value else name
            rule = f"{shown} is harmful on {fabric}: {against.why}"
            inspection.add(RenderCode.FORBIDDEN_VARIABLE, where, rule, "Remove the line.", value)


def _check_secret_variables(scene: Scene, inspection: RenderInspection) -> None:
    for number, secret in enumerate(scene.plan.spec.cluster.secrets):
        if secret.env is not None and is_reserved(secret.env):
            where = f"cluster.secrets[{number}].env"
            rule = f"{secret.env} is set by the launcher; a different value would break the run."
            fix = "Use a different variable."
            inspection.add(RenderCode.RESERVED_VARIABLE, where, rule, fix, secret.env)


def _check_storage(scene: Scene, inspection: RenderInspection) -> None:
    tier, storage = scene.tier, scene.plan.spec.cluster.storage
    if tier is None:
        return
    name = scene.plan.machines.storage
    if tier.needs_claim:
        rule = f"profile {scene.plan.machines.profile} creates no volumes, so a run needs an "
        rule += "existing PVC."
        fix = "Create a PVC with the access mode ReadWriteMany, and set cluster.storage.claim to "
        fix += "its name."
        inspection.add(RenderCode.VOLUME, "cluster.storage.claim", rule, fix)
        return
    if not tier.csi_driver:
        rule = f"{name} is a host-local directory, which pods cannot share."
        fix = "Use a tier with a CSI driver, or an existing PVC: cluster.storage.claim=NAME."
        inspection.add(RenderCode.VOLUME, "cluster.storage.tier", rule, fix, name)
        return
    if storage.volume is None and not tier.dynamic:
        rule = f"the CSI driver of {name} cannot create volumes, so the volume must already exist."
        fix = "Set cluster.storage.volume with its handle, or use an existing PVC."
        inspection.add(RenderCode.VOLUME, "cluster.storage.tier", rule, fix, name)
    if storage.volume is not None:
        missing = [key for key in tier.required_attributes if key not in storage.volume.attributes]
        if missing:
            rule = f"mounting {name} requires the attributes {', '.join(tier.required_attributes)}."
            fix = f"Add to cluster.storage.volume.attributes: {', '.join(missing)}."
            inspection.add(RenderCode.VOLUME, "cluster.storage.volume", rule, fix)


def _check_locations(scene: Scene, inspection: RenderInspection) -> None:
    """Require that the run writes to the volume or to an object store, not into a container."""
    plan, mount = scene.plan, scene.plan.spec.cluster.storage.mount.rstrip("/")
    places = {
        "checkpoints.location": plan.checkpoint_location,
        "data.location": plan.data_location if plan.spec.data.sources else "",
    }
    for field_name, path in places.items():
        if path and "://" not in path and not _plain(path).startswith(_plain(mount)):
            rule = (
                f"{path} is not on the shared volume at {mount}: its files are lost with the pod."
            )
            fix = f"Use a path below {mount}, or remove the line."
            inspection.add(RenderCode.LOCATION, field_name, rule, fix, path)


def _plain(path: str) -> str:
    """Normalise the slashes of a path, with one at its end."""
    return "/".join(("", *filter(None, normpath(path).split("/")), ""))


def _check_image(scene: Scene, inspection: RenderInspection) -> None:
    image, fabric = scene.image, scene.plan.machines.fabric
    name = scene.plan.machines.image
    if not image.published:
        rule = f"{name} is not published yet and cannot be pulled."
        fix = "Use a different image, or build this one and set its reference."
        inspection.add(RenderCode.IMAGE, "cluster.image", rule, fix, name)
    if image.floating:
        rule = f"the tag of {name} changes with every build, so a restart may run different code."
        fix = "Use its digest: REPOSITORY@sha256:..."
        inspection.add(RenderCode.IMAGE, "cluster.image", rule, fix, name, Severity.WARNING)
    if not image.is_cataloged:
        engine = ENGINES[scene.plan.spec.engine.name]
        holds = f"Seatrial {VERSION}, {engine.title} {engine.version} and torch"
        _add_unknown(inspection, "cluster.image", name, holds, engine.installation.packages)
    if not image.brings_worker:
        rule = f"{name} lacks the worker: each pod installs it at startup from the ConfigMap "
        rule += f"{LOCK_CONFIG} in namespace {scene.plan.spec.cluster.namespace}."
        fix = "Use an image that contains the worker (guide: images), or ask an administrator to "
        fix += "create the ConfigMap: workerLock in the chart's values."
        inspection.add(RenderCode.WORKER_LOCK, "cluster.image", rule, fix, name, Severity.NOTE)
    if scene.plan.machines.operator is Operator.HYPERPOD and not image.has_hyperpod_agent:
        rule = f"{name} lacks hyperpod-elastic-agent: its launcher, hyperpodrun, would be missing "
        rule += "and no pod would start."
        fix = "Build docker/worker.Dockerfile with the target hyperpod (guide: images) and set its "
        fix += "reference, or use cluster.operator=pytorchjob."
        inspection.add(RenderCode.IMAGE, "cluster.image", rule, fix, name, Severity.WARNING)
    lacking = image.fabrics is not None and fabric.removesuffix("-sharp") not in image.fabrics
    between = scene.fabric.rdma and scene.plan.machines.nodes > 1
    if lacking and between and not scene.fabric.comes_with_node:
        rule = f"{name} lacks the libraries for {fabric}. {scene.fabric.requires}"
        rule += " NCCL would fall back to TCP, and steps would take much longer."
        fix = "Use an image with them: build docker/worker.Dockerfile and set its reference."
        inspection.add(RenderCode.IMAGE, "cluster.image", rule, fix, name, Severity.WARNING)


def _add_unknown(
    inspection: RenderInspection, field_name: str, name: str, holds: str, packages: tuple[str, ...]
) -> None:
    """Report what an image outside the catalog must contain, and how to verify it."""
    if has_placeholder(name):
        return  # The image does not exist yet, and a different finding requests its name.
    rule = f"{name} is not in the catalog: Seatrial assumes that its {PYTHON} has {holds}."
    modules = ", ".join(("seatrial", *packages))
    fix = (
        f"Verify this: docker run --rm --entrypoint {PYTHON} {name} -c 'import {modules}'. Record "
    )
    fix += "the result in your own catalog: brings_seatrial = true, or false to install the worker."
    inspection.add(RenderCode.UNKNOWN_IMAGE, field_name, rule, fix, name, Severity.WARNING)


def _check_identity(scene: Scene, inspection: RenderInspection) -> None:
    identity, cloud = scene.plan.spec.cluster.identity, scene.profile.cloud
    if identity is None:
        return
    if cloud is Cloud.LOCAL:
        rule = f"profile {scene.plan.machines.profile} does not support cloud identities."
        fix = "Remove identity, or use secrets."
        inspection.add(RenderCode.IDENTITY, "cluster.identity", rule, fix, identity)
    elif _ACCOUNTS.get(cloud, "") not in identity:
        rule = "this is not an identity in this cloud."
        fix = {
            Cloud.AWS: "Use the role's ARN: arn:aws:iam::ACCOUNT:role/NAME.",
            Cloud.GOOGLE: "Use the account's address: NAME@PROJECT.iam.gserviceaccount.com.",
        }[cloud]
        inspection.add(RenderCode.IDENTITY, "cluster.identity", rule, fix, identity)


def _check_mounts(scene: Scene, inspection: RenderInspection) -> None:
    seen: dict[str, str] = {}
    for mount in training_mounts(scene):
        path = mount.path.rstrip("/")
        other = seen.setdefault(path, mount.name)
        if other != mount.name:
            number = mount.name.removeprefix("secret-")
            where = f"cluster.secrets[{number}].mount" if number.isdigit() else "cluster.storage"
            rule = f"{path} is already used by {other.replace('-', ' ')}."
            inspection.add(RenderCode.MOUNT, where, rule, "Use a different directory.", path)


def secrets_in(manifests: Iterable[Manifest]) -> list[str]:
    """Return where values look like secrets, such as `PyTorchJob/slim-7b spec.template`.

    The values themselves are not shown.
    """
    return [
        f"{made['kind']}/{made['metadata']['name']} {path}"
        for made in manifests
        for path, text, name in _texts(made, "")
        if looks_secret(text, name)
    ]


def _texts(value: Any, path: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield every text of a manifest, with its path and its name."""
    if isinstance(value, dict):
        # The name of a variable's value is the variable's name.
        called = str(value.get("name", ""))
        for key, below in value.items():
            inner = called if key == "value" else str(key)
            place = f"{path}.{shown_key(str(key))}".lstrip(".")
            yield place, str(key), inner
            yield from _texts(below, place, inner)
    elif isinstance(value, list | tuple):
        for number, below in enumerate(value):
            yield from _texts(below, f"{path}[{number}]", name)
    elif isinstance(value, str):
        yield path, value, name
