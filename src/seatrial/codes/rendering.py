# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for rendering."""

from enum import StrEnum


class RenderCode(StrEnum):
    """Problems that prevent a plan from being rendered as manifests."""

    OPERATOR = "ST-RENDER-002"
    """The run has no Kubernetes objects, or the operator does not support a setting in the spec."""
    DAEMON = "ST-RENDER-003"
    """The fabric's daemon needs all GPUs of a node, and the run leaves some to other pods."""
    FORBIDDEN_VARIABLE = "ST-RENDER-004"
    """An environment variable is harmful on this fabric."""
    RESERVED_VARIABLE = "ST-RENDER-005"
    """An environment variable is reserved for Seatrial or the operator."""
    VOLUME = "ST-RENDER-006"
    """A volume in this storage tier cannot be created or mounted with the settings in the spec."""
    IDENTITY = "ST-RENDER-007"
    """The cloud does not support this type of identity."""
    OPERATOR_VERSION = "ST-RENDER-008"
    """The version of the operator is unknown."""
    MOUNT = "ST-RENDER-009"
    """Two volumes would be mounted at the same path."""
    LOCATION = "ST-RENDER-010"
    """Files would be written to a location that is lost when the pod is deleted."""
    IMAGE = "ST-RENDER-011"
    """The image cannot be pulled, has a mutable tag, or lacks the fabric's libraries."""
    SECRET = "ST-RENDER-012"  # noqa: S105  (a code, not a secret)
    """A manifest would contain a value that looks like a secret."""
    WORKER_LOCK = "ST-RENDER-013"
    """The image lacks the worker: pods install it from the administrator's ConfigMap."""
    UNKNOWN_IMAGE = "ST-RENDER-014"
    """The image is not in the catalog: Seatrial assumes that it contains the worker."""
    GANG = "ST-RENDER-015"
    """No gang scheduler starts the pods of the run together."""
    TAKEN = "ST-RENDER-016"
    """The spec sets a label, an annotation or a resource that the profile or Seatrial also sets."""
    HOST_PATH = "ST-RENDER-017"
    """Pods mount a directory of the node, which only privileged namespaces allow."""
    RDMA_USER = "ST-RENDER-018"
    """Processes run as a user that cannot lock memory, which the fabric needs."""
