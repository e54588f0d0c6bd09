# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes the next attempt stays away from, by what the look before training found there."""

from collections.abc import Sequence

from seatrial.cluster.transport import Json
from seatrial.runs.pod_reasons import node_of, preflight_findings

OWN_FAULTS = (
    "ST-PREFLIGHT-001",  # GPUs
    "ST-PREFLIGHT-002",  # devices of the fabric
)
"""Findings that are about one node whatever the others have: the hardware is the node's own."""
COMPARED_FAULTS = (
    "ST-PREFLIGHT-004",  # the mount
    "ST-PREFLIGHT-007",  # the clock
    "ST-PREFLIGHT-008",  # a volume that is not shared
    "ST-PREFLIGHT-009",  # a wrong sum
)
"""Findings that are about one node when others do not have them."""
NODE_FAULTS = (*OWN_FAULTS, *COMPARED_FAULTS)
"""Findings that can be about one node. Room on the volume and the size of shared memory are the
run's, and 006 says of a healthy node that another one has findings."""
WRONG_SUM = "ST-PREFLIGHT-009"


def faulty_nodes(pods: Sequence[Json]) -> tuple[str, ...]:
    """The nodes with a fault of their own; a volume or clock that all share is not the nodes'."""
    nodes = {node_of(pod) for pod in pods} - {""}
    by_code: dict[str, set[str]] = {}
    for pod in pods:
        for finding in preflight_findings(pod):
            if finding.code in NODE_FAULTS and node_of(pod):
                by_code.setdefault(finding.code, set()).add(node_of(pod))
    # On one node only its own GPUs have added up.
    own = {*OWN_FAULTS, WRONG_SUM} if len(nodes) == 1 else set(OWN_FAULTS)
    faulty = (found for code, found in by_code.items() if code in own or found != nodes)
    return tuple(sorted({name for found in faulty for name in found}))
