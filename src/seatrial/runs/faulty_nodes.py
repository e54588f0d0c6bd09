# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes the next attempt stays away from, by what the look before training found there."""

from collections.abc import Sequence

from seatrial.cluster.transport import Json
from seatrial.runs.pod_reasons import node_of, preflight_findings

NODE_FAULTS = (
    "ST-PREFLIGHT-001",  # GPUs
    "ST-PREFLIGHT-002",  # devices of the fabric
    "ST-PREFLIGHT-004",  # the mount
    "ST-PREFLIGHT-007",  # the clock
    "ST-PREFLIGHT-008",  # a volume that is not shared
    "ST-PREFLIGHT-009",  # a wrong sum
)
"""Findings that are about one node. Room on the volume and the size of shared memory are the
run's, and 006 says of a healthy node that another one has findings."""


def faulty_nodes(pods: Sequence[Json]) -> tuple[str, ...]:
    """The nodes with a fault of their own; a fault that all nodes share is not the nodes'."""
    nodes = {node_of(pod) for pod in pods} - {""}
    by_code: dict[str, set[str]] = {}
    for pod in pods:
        for finding in preflight_findings(pod):
            if finding.code in NODE_FAULTS and node_of(pod):
                by_code.setdefault(finding.code, set()).add(node_of(pod))
    return tuple(sorted({name for found in by_code.values() if found != nodes for name in found}))
