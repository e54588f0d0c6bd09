# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""TensorBoard for a run's files, and its service."""

from seatrial.rendering.context import Scene
from seatrial.rendering.environment import plain
from seatrial.rendering.expansion import Command
from seatrial.rendering.manifest import Manifest, manifest, without_empty
from seatrial.rendering.names import Component, metadata, object_name, selector
from seatrial.rendering.pod import account_parts, cpu_pod_metadata
from seatrial.rendering.resources import small_resources
from seatrial.rendering.scheduling import cpu_affinity, cpu_tolerations
from seatrial.rendering.security import container_security, pod_security, user_of
from seatrial.rendering.volumes import scratch_mount, storage_mount

PORT = 6006
PART = "tensorboard"
"""Name part of TensorBoard's objects."""


def tensorboard(scene: Scene) -> list[Manifest]:
    """Return a deployment with read-only access, and its service."""
    plan = scene.plan
    selected = selector(plan, Component.TENSORBOARD)
    # The same user as the training pods, whose files it reads.
    mounts = [storage_mount(scene, read_only=True), scratch_mount()]
    probe = {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 30, "timeoutSeconds": 10}
    container: Manifest = {
        "name": "tensorboard",
        "image": scene.tensorboard_image.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": Command(
            module="tensorboard.main",
            options={
                "logdir": f"{plan.checkpoint_location}/tensorboard",
                "host": "0.0.0.0",  # noqa: S104  (inside the pod: only its service exposes it)
                "port": PORT,
                "load_fast": "false",
            },
        ).in_container(),
        "env": plain({"HOME": scratch_mount().path}),
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": probe,
        "resources": small_resources("1", "4Gi"),
        "securityContext": container_security(),
        "volumeMounts": [mount.mount for mount in mounts],
    }
    template: Manifest = {
        "metadata": cpu_pod_metadata(scene, Component.TENSORBOARD),
        "spec": {
            **account_parts(scene),
            "affinity": cpu_affinity(scene),
            **without_empty({"tolerations": cpu_tolerations(scene)}),
            "enableServiceLinks": False,
            "securityContext": pod_security(user_of(scene)),
            "volumes": [mount.volume for mount in mounts],
            "containers": [container],
        },
    }
    deployment = manifest(
        "apps/v1",
        "Deployment",
        metadata(plan, Component.TENSORBOARD, PART),
        spec={
            "replicas": 1,
            # Two replicas would load the files twice.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selected},
            "template": template,
        },
    )
    return [deployment, service(scene)]


def service(scene: Scene) -> Manifest:
    """Return the service of TensorBoard, for the cluster and for port forwarding."""
    return manifest(
        "v1",
        "Service",
        metadata(scene.plan, Component.TENSORBOARD, PART),
        spec={
            "selector": selector(scene.plan, Component.TENSORBOARD),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    )


def address(scene: Scene) -> str:
    """Return the address of the service inside the cluster."""
    name = object_name(scene.plan, PART)
    return f"http://{name}.{scene.plan.spec.cluster.namespace}.svc:{PORT}"
