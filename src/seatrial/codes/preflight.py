# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes of the preflight checks of a node."""

from enum import StrEnum


class PreflightCode(StrEnum):
    """Problems with a node. The codes are stable."""

    GPUS = "ST-PREFLIGHT-001"
    """A node has fewer GPUs than the plan requires."""
    DEVICES = "ST-PREFLIGHT-002"
    """A node has fewer fabric devices than the pod requested."""
    SHARED_MEMORY = "ST-PREFLIGHT-003"
    """The shared memory is smaller than the plan requires."""
    MOUNT = "ST-PREFLIGHT-004"
    """The volume is not mounted or not writable."""
    ROOM = "ST-PREFLIGHT-005"
    """The volume has no room for a checkpoint."""
    TOGETHER = "ST-PREFLIGHT-006"
    """The nodes cannot reach each other, or another node has findings: not a fault of this node."""
    CLOCK = "ST-PREFLIGHT-007"
    """A node's clock differs from the clocks of the other nodes."""
    NOT_SHARED = "ST-PREFLIGHT-008"
    """A node cannot see a file that another node wrote to the volume."""
    SUM = "ST-PREFLIGHT-009"
    """An all-reduce returned a wrong sum."""
    TOPOLOGY = "ST-PREFLIGHT-010"
    """NCCL_TOPO_FILE names a file that the container does not have."""
