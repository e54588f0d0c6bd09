# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for requests to a cluster."""

from enum import StrEnum


class ClusterCode(StrEnum):
    """Problems with requests to a Kubernetes API server."""

    CONFIG = "ST-CLUSTER-001"
    """The kubeconfig, or the requested context in it, does not exist."""
    UNREACHABLE = "ST-CLUSTER-002"
    """The API server does not respond."""
    CREDENTIALS = "ST-CLUSTER-003"
    """The API server rejects the credentials."""
    DENIED = "ST-CLUSTER-004"
    """The account is not permitted to make the request."""
    NOT_SERVED = "ST-CLUSTER-005"
    """The cluster does not serve this kind of object, because its operator is not installed."""
    INVALID = "ST-CLUSTER-006"
    """The API server or a webhook rejects an object."""
    CONFLICT = "ST-CLUSTER-007"
    """A different client owns the object or one of its fields."""
    FAILING = "ST-CLUSTER-008"
    """The API server keeps returning a server error."""
    NOT_FOUND = "ST-CLUSTER-009"
    """The object or its namespace does not exist."""
