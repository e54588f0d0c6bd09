# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Security contexts: the fewest privileges that the fabric allows."""

from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest

UNPRIVILEGED = 1000
"""The user id of processes that do not need root."""


def user_of(scene: Scene) -> int:
    """Return the user id of the processes.

    RDMA locks memory. Kubernetes grants an added capability only to root (no ambient capabilities,
    kubernetes/kubernetes#56374), so another user would depend on the node's limits.
    """
    chosen = scene.plan.spec.cluster.run_as_user
    if chosen is not None:
        return chosen
    return 0 if scene.fabric.rdma else UNPRIVILEGED


def pod_security(user: int) -> Manifest:
    context: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": user}
    if user:
        context |= {
            "runAsNonRoot": True,
            "runAsGroup": user,
            "fsGroup": user,
            # Otherwise every start would change the owner of all files on the volume.
            "fsGroupChangePolicy": "OnRootMismatch",
        }
    return context


def container_security(*, locks_memory: bool = False) -> Manifest:
    """Return a container's security context. Only RDMA adds a capability, to lock memory."""
    capabilities: Manifest = {"drop": ["ALL"]}
    if locks_memory:
        capabilities["add"] = ["IPC_LOCK"]
    return {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "capabilities": capabilities,
    }
