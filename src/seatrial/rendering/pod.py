# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The training pod, the same for every operator."""

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
from seatrial.rendering.fabric_daemon import daemon_containers, daemon_mounts
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
    """One replica type of an operator's job."""

    container: str
    """The name of the training container. Some operators require a certain name."""
    command: Command
    preflight: PodRendezvous | None
    """How nodes meet before training; None if they cannot."""
    restart_policy: str
    """The pod's restart policy; empty if the operator sets it."""
    ports: tuple[tuple[str, int], ...] = ()
    """Ports of the training container, with names."""
    preflight_env: tuple[Manifest, ...] = ()
    """Variables for the preflight container only."""
    supervised: bool = True
    """True if Seatrial's supervisor starts the processes and answers the kubelet's probes."""
    env: tuple[Manifest, ...] = ()
    """Additional variables of the training container."""


def training_pod(scene: Scene, role: Role) -> Manifest:
    """Return the pod template: metadata and spec."""
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
    found = {
        **labels(scene.plan, Component.TRAINING),
        **digest_labels(scene.plan),
        ATTEMPT_LABEL: str(scene.attempt.number),
    }
    return found | identity_labels(scene)


def cpu_pod_metadata(scene: Scene, component: Component) -> Manifest:
    """Return labels and annotations of a pod that needs no GPU."""
    notes = dict(scene.plan.spec.cluster.annotations)
    notes |= scene.tier.pod_annotations if scene.tier else {}
    found = labels(scene.plan, component) | identity_labels(scene)
    return {"labels": found, **without_empty({"annotations": notes})}


def identity_labels(scene: Scene) -> dict[str, str]:
    """Return the label that makes Azure inject the service account's identity."""
    cluster = scene.plan.spec.cluster
    wanted = cluster.identity is not None or cluster.service_account is not None
    if scene.profile.cloud is Cloud.AZURE and wanted:
        return {"azure.workload.identity/use": "true"}
    return {}


def service_account(scene: Scene) -> str:
    """Return the service account of the pods; empty for the namespace's default."""
    cluster = scene.plan.spec.cluster
    return cluster.service_account or (scene.plan.spec.name if cluster.identity else "")


def account_parts(scene: Scene) -> Manifest:
    """Return the pod's service account and image pull secret.

    Pods of a run do not use the API server, so they get no token for it. Cloud identities use
    separate tokens.
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
        "volumes": [mount.volume for mount in (*mounts, *installs, *daemon_mounts(scene))],
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
    """Check that the supervisor starts within ten minutes and then responds.

    The supervisor itself handles long starts, saves and hangs, so that no probe kills a healthy
    pod.
    """
    return {
        "startupProbe": {
            "exec": {"command": probe_command("startup").in_container()},
            # The names under which nodes meet do not depend on it (network.meeting_service).
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
    """Return the init container that installs the worker; empty if the image contains it."""
    if scene.image.brings_worker:
        return []
    # NVIDIA's images constrain pip to the versions they contain. The lock file installs others
    # in addition.
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
    """Install the worker if the image lacks it, start the fabric's daemon, then check the node."""
    containers = [*install_containers(scene), *daemon_containers(scene)]
    if scene.plan.spec.cluster.preflight:
        container = _training_container(scene, role)
        container |= {
            "name": "preflight",
            "command": preflight_command(scene, role.preflight).in_container(),
            "env": [*open_environment(scene), *role.preflight_env],
            # `seatrial status` reads findings from the pod's status, without its log.
            "terminationMessagePolicy": "File",
        }
        container["volumeMounts"] = [
            mount.mount for mount in training_mounts(scene) if not mount.is_secret
        ]
        for name in ("ports", "startupProbe", "livenessProbe"):
            container.pop(name, None)
        containers.append(container)
    return containers
