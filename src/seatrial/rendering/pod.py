# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The training pod, the same under every operator."""

from dataclasses import dataclass

from seatrial.catalog.node_types import Cloud
from seatrial.rendering.commands import (
    PodRendezvous,
    install_command,
    preflight_command,
    probe_command,
)
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import open_environment, plain, training_environment
from seatrial.rendering.expansion import Command
from seatrial.rendering.manifest import Manifest, without_empty
from seatrial.rendering.monitoring import metrics_port
from seatrial.rendering.names import (
    ATTEMPT_LABEL,
    Component,
    annotations,
    digest_labels,
    labels,
)
from seatrial.rendering.resources import grace_seconds, small_resources, training_resources
from seatrial.rendering.scheduling import (
    affinity,
    tolerations,
    topology_annotations,
    topology_spread,
)
from seatrial.rendering.security import container_security, pod_security, user_of
from seatrial.rendering.volumes import lock_mount, scratch_mount, site_mount, training_mounts


@dataclass(frozen=True, slots=True)
class Role:
    """What one kind of pod of an operator's job is called and runs."""

    container: str
    """The name of the training container, where the operator asks for one."""
    command: Command
    preflight: PodRendezvous | None
    """How nodes meet before training; nothing where they cannot."""
    restart_policy: str
    """What the kubelet does when a container ends; empty where the operator decides."""
    ports: tuple[tuple[str, int], ...] = ()
    """Ports of the training container by name."""
    preflight_env: tuple[Manifest, ...] = ()
    """Variables that only the pre-flight needs."""
    supervised: bool = True
    """Whether our supervisor starts the processes, and answers the kubelet's probes."""
    env: tuple[Manifest, ...] = ()
    """Variables of the training container beside those of every run."""


def training_pod(scene: Scene, role: Role) -> Manifest:
    """The pod template: metadata and spec."""
    return {
        "metadata": {
            "labels": pod_labels(scene),
            "annotations": annotations(scene.plan, scene.attempt)
            | scene.fabric.annotations
            | (scene.tier.pod_annotations if scene.tier else {})
            | topology_annotations(scene),
        },
        "spec": _pod_spec(scene, role),
    }


def pod_labels(scene: Scene) -> dict[str, str]:
    """The labels of a training pod."""
    found = {
        **labels(scene.plan, Component.TRAINING),
        **digest_labels(scene.plan),
        ATTEMPT_LABEL: str(scene.attempt.number),
    }
    return found | identity_labels(scene)


def identity_labels(scene: Scene) -> dict[str, str]:
    """What makes Azure give a pod the identity of its service account."""
    cluster = scene.plan.spec.cluster
    wanted = cluster.identity is not None or cluster.service_account is not None
    if scene.profile.cloud is Cloud.AZURE and wanted:
        return {"azure.workload.identity/use": "true"}
    return {}


def service_account(scene: Scene) -> str:
    """The account that pods run under; empty for the namespace's own."""
    cluster = scene.plan.spec.cluster
    return cluster.service_account or (scene.plan.spec.name if cluster.identity else "")


def account_parts(scene: Scene) -> Manifest:
    """Whose account a pod has, and how its image is pulled.

    No pod of a run talks to the API server, so none gets a token for it; identities of a cloud
    come through tokens of their own.
    """
    pull = scene.plan.spec.cluster.image_pull_secret
    return without_empty(
        {
            "serviceAccountName": service_account(scene),
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": pull}] if pull else [],
        }
    )


def _pod_spec(scene: Scene, role: Role) -> Manifest:
    mounts = training_mounts(scene)
    installs = [] if scene.image.brings_worker else [lock_mount()]
    return {
        **account_parts(scene),
        **without_empty(
            {
                "restartPolicy": role.restart_policy,
                "priorityClassName": scene.plan.spec.cluster.priority_class,
                "affinity": affinity(scene),
                "tolerations": tolerations(scene),
                "topologySpreadConstraints": topology_spread(scene),
            }
        ),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(scene),
        "securityContext": pod_security(user_of(scene)),
        "volumes": [mount.volume for mount in (*mounts, *installs)],
        **without_empty({"initContainers": _init_containers(scene, role)}),
        "containers": [_training_container(scene, role)],
    }


def _training_container(scene: Scene, role: Role) -> Manifest:
    ports = (*role.ports, *metrics_port(scene))
    return {
        "name": role.container,
        "image": scene.image.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": role.command.in_container(),
        "env": [*training_environment(scene), *role.env],
        **without_empty({"ports": [{"name": name, "containerPort": port} for name, port in ports]}),
        "resources": training_resources(scene),
        "securityContext": container_security(locks_memory=scene.fabric.rdma),
        **(_probes() if role.supervised else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount.mount for mount in training_mounts(scene)],
    }


def _probes() -> Manifest:
    """Whether the supervisor does its work: it has come up within ten minutes, and looks since.

    Long starts, saves and hangs are its own to judge, so that no probe ends what is well.
    """
    return {
        "startupProbe": {
            "exec": {"command": probe_command("startup").in_container()},
            # No name that nodes meet under depends on it (network.meeting_service, JobSet's own).
            "periodSeconds": 3,
            "timeoutSeconds": 10,
            "failureThreshold": 200,
        },
        "livenessProbe": {
            "exec": {"command": probe_command("liveness").in_container()},
            "periodSeconds": 30,
            "timeoutSeconds": 20,
            "failureThreshold": 4,
        },
    }


def install_containers(scene: Scene) -> list[Manifest]:
    """What installs the worker before anything else; nothing where the image brings it."""
    if scene.image.brings_worker:
        return []
    # NVIDIA's images hold every pip to the versions that they bring; the lock has others, beside
    # them.
    environment = {"HOME": scratch_mount().path, "PIP_CONSTRAINT": ""}
    mounts = (site_mount(), scratch_mount(), lock_mount())
    return [
        {
            "name": "install",
            "image": scene.image.reference,
            "imagePullPolicy": "IfNotPresent",
            "command": install_command(scene).in_container(),
            "env": plain(environment),
            "resources": small_resources("2", "8Gi"),
            "securityContext": container_security(),
            "volumeMounts": [mount.mount for mount in mounts],
        }
    ]


def _init_containers(scene: Scene, role: Role) -> list[Manifest]:
    """Install the worker where the image lacks it, then look at the node."""
    containers = install_containers(scene)
    if scene.plan.spec.cluster.preflight:
        container = _training_container(scene, role)
        container |= {
            "name": "preflight",
            "command": preflight_command(scene, role.preflight).in_container(),
            "env": [*open_environment(scene), *role.preflight_env],
            # A finding is read from the pod's status, without its log.
            "terminationMessagePolicy": "File",
        }
        container["volumeMounts"] = [
            mount.mount for mount in training_mounts(scene) if not mount.is_secret
        ]
        for name in ("ports", "startupProbe", "livenessProbe"):
            container.pop(name, None)
        containers.append(container)
    return containers
