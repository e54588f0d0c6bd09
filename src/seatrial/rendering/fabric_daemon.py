# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The fabric's daemon: a sidecar in every training pod, such as Google's TCPX and TCPXO daemons.

It is an init container that keeps running (a native sidecar, from Kubernetes 1.29 on), so that it
starts before the preflight and stops when training has finished.
"""

from seatrial.catalog.fabrics import Daemon
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import plain
from seatrial.rendering.manifest import Manifest, without_empty
from seatrial.rendering.volumes import Mount, host_mount, socket_mounts


def daemon_mounts(scene: Scene) -> list[Mount]:
    """Return the mounts that only the daemon uses."""
    daemon = scene.fabric.daemon
    paths = daemon.host_paths if daemon is not None else ()
    return [host_mount(f"daemon-{number}", host) for number, host in enumerate(paths)]


def daemon_containers(scene: Scene) -> list[Manifest]:
    """Return the daemon's container; empty if the fabric needs none."""
    daemon = scene.fabric.daemon
    if daemon is None:
        return []
    mounts = [*daemon_mounts(scene), *socket_mounts(scene)]
    return [
        {
            "name": daemon.name,
            "image": daemon.image,
            "imagePullPolicy": "IfNotPresent",
            "restartPolicy": "Always",
            "command": list(daemon.command),
            **without_empty({"env": plain(dict(daemon.environment))}),
            # No limits: throttling the daemon would slow down every collective.
            "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
            "securityContext": _security(daemon),
            **without_empty({"startupProbe": _probe(daemon)}),
            "volumeMounts": [mount.mount for mount in mounts],
        }
    ]


def _security(daemon: Daemon) -> Manifest:
    """Return the daemon's security context: root, because it configures the node's network."""
    return {
        "runAsUser": 0,
        "runAsNonRoot": False,
        "privileged": False,
        **without_empty({"capabilities": without_empty({"add": list(daemon.capabilities)})}),
    }


def _probe(daemon: Daemon) -> Manifest:
    """Wait for the daemon before the next container starts; empty if it creates no file."""
    if not daemon.ready_file:
        return {}
    return {
        "exec": {"command": ["test", "-f", daemon.ready_file]},
        "periodSeconds": 5,
        "timeoutSeconds": 5,
        # It is usually ready within 30 seconds.
        "failureThreshold": 24,
    }
