# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which rendering reports."""

from enum import StrEnum


class RenderCode(StrEnum):
    """What can keep a plan from becoming manifests; the codes are stable."""

    OPERATOR = "ST-RENDER-002"
    """The run has no Kubernetes objects, or this operator cannot do what the spec asks for."""
    DAEMON = "ST-RENDER-003"
    """The fabric needs a daemon in every pod that cannot be rendered yet."""
    FORBIDDEN_VARIABLE = "ST-RENDER-004"
    """An environment variable does harm on the fabric."""
    RESERVED_VARIABLE = "ST-RENDER-005"
    """An environment variable is set by Seatrial or the operator."""
    VOLUME = "ST-RENDER-006"
    """The volume of this storage tier cannot be made or mounted from what is given."""
    IDENTITY = "ST-RENDER-007"
    """The cloud has no identities of this form."""
    OPERATOR_VERSION = "ST-RENDER-008"
    """The operator has no such version that is known."""
    MOUNT = "ST-RENDER-009"
    """Two things would be mounted at one place."""
    LOCATION = "ST-RENDER-010"
    """Files of the run would be written where they end with the pod."""
    IMAGE = "ST-RENDER-011"
    """The image cannot be pulled, moves, or lacks what the fabric needs."""
    SECRET = "ST-RENDER-012"  # noqa: S105  (a code, not a secret)
    """Something that looks like a secret would stand in a manifest."""
    WORKER_LOCK = "ST-RENDER-013"
    """The image lacks the worker, and pods install it by a config map of the administrator's."""
    UNKNOWN_IMAGE = "ST-RENDER-014"
    """The image is not in the catalog: Seatrial assumes that it holds the worker."""
