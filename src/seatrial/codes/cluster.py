# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which talking to a cluster reports."""

from enum import StrEnum


class ClusterCode(StrEnum):
    """What can go wrong between here and a Kubernetes API server; the codes are stable."""

    CONFIG = "ST-CLUSTER-001"
    """There is no kubeconfig, or not the context that was asked for."""
    UNREACHABLE = "ST-CLUSTER-002"
    """The API server does not answer."""
    CREDENTIALS = "ST-CLUSTER-003"
    """The API server does not accept the credentials."""
    DENIED = "ST-CLUSTER-004"
    """The account may not do this."""
    NOT_SERVED = "ST-CLUSTER-005"
    """The cluster does not know this kind of object: its operator is not installed."""
    INVALID = "ST-CLUSTER-006"
    """The API server or a webhook refuses an object."""
    CONFLICT = "ST-CLUSTER-007"
    """Somebody else holds the object or a field of it."""
    FAILING = "ST-CLUSTER-008"
    """The API server keeps answering with an error of its own."""
    NOT_FOUND = "ST-CLUSTER-009"
    """The object or its namespace does not exist."""
