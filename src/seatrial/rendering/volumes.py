# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a pod mounts, and where."""

from dataclasses import dataclass

from seatrial.catalog.fabrics import HostPath
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import SCRATCH, SITE
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.resources import SCRATCH_GIB, shared_memory_gib
from seatrial.rendering.security import user_of

SHARED_MEMORY = "/dev/shm"  # noqa: S108  (a pod's own)
LOCK = "/opt/seatrial/lock"
"""Where the lock file of the worker's packages is mounted."""
LOCK_CONFIG = "seatrial-worker-lock"
"""The config map with that file; the chart for administrators brings it."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One volume of a pod and where it is seen."""

    name: str
    """The volume's name inside the pod."""
    path: str
    """Where containers see it."""
    source: Manifest
    """What it is, as Kubernetes has it."""
    read_only: bool = False
    """Whether containers may only read it."""

    @property
    def is_secret(self) -> bool:
        """Whether it holds a secret, which few containers need."""
        return "secret" in self.source

    @property
    def volume(self) -> Manifest:
        """The entry among the pod's volumes."""
        return {"name": self.name, **self.source}

    @property
    def mount(self) -> Manifest:
        """The entry among a container's mounts."""
        entry: Manifest = {"name": self.name, "mountPath": self.path}
        return entry | {"readOnly": True} if self.read_only else entry


def training_mounts(scene: Scene) -> list[Mount]:
    """Everything that a training pod mounts."""
    shared = {"medium": "Memory", "sizeLimit": f"{shared_memory_gib(scene)}Gi"}
    mounts = [
        storage_mount(scene),
        Mount("shared-memory", SHARED_MEMORY, {"emptyDir": shared}),
        scratch_mount(),
        *secret_mounts(scene),
    ]
    for number, host in enumerate(host_paths(scene)):
        source = {"hostPath": {"path": host.path, "type": "Directory"}}
        mounts.append(Mount(f"fabric-{number}", host.mount, source, read_only=True))
    if not scene.image.brings_worker:
        mounts.append(site_mount())
    return mounts


def storage_mount(scene: Scene, *, read_only: bool = False) -> Mount:
    """The shared volume of the run."""
    claim: Manifest = {"claimName": scene.claim}
    if read_only:
        claim["readOnly"] = True
    path = scene.plan.spec.cluster.storage.mount
    return Mount("storage", path, {"persistentVolumeClaim": claim}, read_only=read_only)


def scratch_mount() -> Mount:
    """Local disk of the node."""
    return Mount("scratch", SCRATCH, {"emptyDir": {"sizeLimit": f"{SCRATCH_GIB}Gi"}})


def site_mount() -> Mount:
    """Where the worker is installed in a pod whose image lacks it."""
    return Mount("worker", SITE, {"emptyDir": {}})


def lock_mount() -> Mount:
    """The lock file by which the worker is installed."""
    return Mount("worker-lock", LOCK, {"configMap": {"name": LOCK_CONFIG}}, read_only=True)


def secret_mounts(scene: Scene) -> list[Mount]:
    """Secrets that pods receive as files, readable by the processes' own user or group."""
    # Files of a secret belong to root, and to the pod's group where it has one.
    mode = 0o440 if user_of(scene) else 0o400
    return [
        Mount(
            f"secret-{number}",
            secret.mount,
            {"secret": {"secretName": secret.secret, "defaultMode": mode, **_keys(secret.key)}},
            read_only=True,
        )
        for number, secret in enumerate(scene.plan.spec.cluster.secrets)
        if secret.mount is not None
    ]


def _keys(key: str | None) -> Manifest:
    """One key of a secret, or nothing for all of them."""
    return {} if key is None else {"items": [{"key": key, "path": key}]}


def host_paths(scene: Scene) -> list[HostPath]:
    """Directories of the node that the fabric needs."""
    node_type = scene.plan.machines.node_type
    return [
        host
        for host in scene.fabric.host_paths
        if not host.node_types or node_type in host.node_types
    ]
