# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The volumes that pods mount."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from seatrial.catalog.fabrics import HostPath
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import SCRATCH, SITE
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.names import object_name
from seatrial.rendering.nccl_topology import PART, topology_path
from seatrial.rendering.resources import GIB, SCRATCH_GIB, quantity, shared_memory_bytes
from seatrial.rendering.security import user_of

SHARED_MEMORY = "/dev/shm"  # noqa: S108  (a pod's own)
LOCK = "/opt/seatrial/lock"
"""Mount point of the lock file for the worker's packages."""
LOCK_CONFIG = "seatrial-worker-lock"
"""The ConfigMap with the lock file, installed by the administrator's chart."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume of a pod and its mount point."""

    name: str
    """The volume's name inside the pod."""
    path: str
    """The mount point."""
    source: Manifest
    """The volume source, as in the Kubernetes API."""
    read_only: bool = False
    sub_path: str = ""
    """The file of the volume to mount; empty for the whole volume."""

    @property
    def is_secret(self) -> bool:
        """True if it contains a secret."""
        return "secret" in self.source

    @property
    def volume(self) -> Manifest:
        """The entry in the pod's volumes."""
        return {"name": self.name, **self.source}

    @property
    def mount(self) -> Manifest:
        """The entry in a container's volume mounts."""
        entry: Manifest = {"name": self.name, "mountPath": self.path}
        if self.sub_path:
            entry["subPath"] = self.sub_path
        return entry | {"readOnly": True} if self.read_only else entry


def training_mounts(scene: Scene) -> list[Mount]:
    """Return all mounts of a training pod."""
    shared = {"medium": "Memory", "sizeLimit": quantity(shared_memory_bytes(scene))}
    mounts = [
        storage_mount(scene),
        Mount("shared-memory", SHARED_MEMORY, {"emptyDir": shared}),
        _training_scratch(scene),
        *secret_mounts(scene),
    ]
    mounts += [host_mount(f"fabric-{n}", host) for n, host in enumerate(host_paths(scene))]
    mounts += [*socket_mounts(scene), *_topology_mounts(scene)]
    if not scene.image.brings_worker:
        mounts.append(site_mount())
    return mounts


def host_mount(name: str, host: HostPath) -> Mount:
    """Return the mount of a directory of the node."""
    source = {"hostPath": {"path": host.path, "type": "Directory"}}
    return Mount(name, host.mount, source, read_only=host.read_only)


def socket_mounts(scene: Scene) -> list[Mount]:
    """Return the directory through which processes reach the fabric's daemon, if it has one."""
    daemon = scene.fabric.daemon
    if daemon is None or not daemon.socket_directory:
        return []
    return [Mount("daemon-socket", daemon.socket_directory, {"emptyDir": {}})]


def storage_mount(scene: Scene, *, read_only: bool = False) -> Mount:
    """Return the mount of the run's shared volume."""
    claim: Manifest = {"claimName": scene.claim}
    if read_only:
        claim["readOnly"] = True
    path = scene.plan.spec.cluster.storage.mount
    return Mount("storage", path, {"persistentVolumeClaim": claim}, read_only=read_only)


def scratch_mount() -> Mount:
    """Return the mount of the node's local disk."""
    return Mount("scratch", SCRATCH, {"emptyDir": {"sizeLimit": f"{SCRATCH_GIB}Gi"}})


def _training_scratch(scene: Scene) -> Mount:
    """Return the local disk of a training pod: ephemeral storage, a host directory, or a volume."""
    chosen = scene.plan.spec.cluster.scratch
    if chosen is None:
        return scratch_mount()
    if chosen.host_path is not None:
        return Mount(
            "scratch", SCRATCH, {"hostPath": {"path": chosen.host_path, "type": "Directory"}}
        )
    size = quantity(chosen.size or SCRATCH_GIB * GIB)
    if chosen.storage_class is None:
        return Mount("scratch", SCRATCH, {"emptyDir": {"sizeLimit": size}})
    claim: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": chosen.storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return Mount("scratch", SCRATCH, {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}})


def site_mount() -> Mount:
    """Return the directory for the worker in a pod whose image lacks it."""
    return Mount("worker", SITE, {"emptyDir": {}})


def lock_mount() -> Mount:
    """Return the mount of the worker's lock file."""
    return Mount("worker-lock", LOCK, {"configMap": {"name": LOCK_CONFIG}}, read_only=True)


def secret_mounts(scene: Scene) -> list[Mount]:
    """Return the secrets that pods receive as files, readable by the processes' user or group."""
    # Files of a secret belong to root, and to the pod's group if it has one.
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


def _topology_mounts(scene: Scene) -> list[Mount]:
    """Return the mount of NCCL's topology file, if the node needs one."""
    path = topology_path(scene)
    if not path:
        return []
    source = {"configMap": {"name": object_name(scene.plan, PART)}}
    # The directory contains other files of the image.
    return [Mount(PART, path, source, read_only=True, sub_path=PurePosixPath(path).name)]


def _keys(key: str | None) -> Manifest:
    """Select one key of a secret; empty to select all."""
    return {} if key is None else {"items": [{"key": key, "path": key}]}


def host_paths(scene: Scene) -> list[HostPath]:
    """Return the node's directories that the fabric needs."""
    node_type = scene.plan.machines.node_type
    return [
        host
        for host in scene.fabric.host_paths
        if not host.node_types or node_type in host.node_types
    ]
