# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of a pod may do: as little as the fabric allows."""

from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest

UNPRIVILEGED = 1000
"""The user of processes that nothing needs to be root for."""


def user_of(scene: Scene) -> int:
    """The user that processes run as.

    RDMA locks memory. Kubernetes gives an added capability to root only (no ambient ones,
    kubernetes/kubernetes#56374), so that another user would depend on the node's own limit.
    """
    chosen = scene.plan.spec.cluster.run_as_user
    if chosen is not None:
        return chosen
    return 0 if scene.fabric.rdma else UNPRIVILEGED


def pod_security(user: int) -> Manifest:
    """The security context of a pod."""
    context: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": user}
    if user:
        context |= {
            "runAsNonRoot": True,
            "runAsGroup": user,
            "fsGroup": user,
            # Else every start would walk over all files of the volume.
            "fsGroupChangePolicy": "OnRootMismatch",
        }
    return context


def container_security(*, locks_memory: bool = False) -> Manifest:
    """The security context of a container; only RDMA gets a capability, to lock memory."""
    capabilities: Manifest = {"drop": ["ALL"]}
    if locks_memory:
        capabilities["add"] = ["IPC_LOCK"]
    return {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "capabilities": capabilities,
    }
