# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for the preflight checks of a node."""

from enum import StrEnum


class PreflightCode(StrEnum):
    """Problems with a node."""

    GPUS = "ST-PREFLIGHT-001"
    """A node has fewer GPUs than the plan requires."""
    DEVICES = "ST-PREFLIGHT-002"
    """A node has fewer fabric devices than the pod requested."""
    SHARED_MEMORY = "ST-PREFLIGHT-003"
    """The shared memory is smaller than the plan requires."""
    MOUNT = "ST-PREFLIGHT-004"
    """The volume is not mounted or not writable."""
    ROOM = "ST-PREFLIGHT-005"
    """The volume has too little free space for a checkpoint."""
    TOGETHER = "ST-PREFLIGHT-006"
    """Nodes cannot reach each other, or a different node has findings; this node may be healthy."""
    CLOCK = "ST-PREFLIGHT-007"
    """A node's clock differs from the clocks of the other nodes."""
    NOT_SHARED = "ST-PREFLIGHT-008"
    """A node cannot see a file that a different node wrote to the volume."""
    SUM = "ST-PREFLIGHT-009"
    """An all-reduce returned a wrong sum."""
    TOPOLOGY = "ST-PREFLIGHT-010"
    """NCCL_TOPO_FILE names a file that the container does not have."""
    SLOW_NETWORK = "ST-PREFLIGHT-011"
    """A node's network is slower than its floor, or than half of the network of the other nodes."""
    SLOW_DEVICE = "ST-PREFLIGHT-012"
    """A GPU, its memory or its links are slower than their floor."""
    MEMORY = "ST-PREFLIGHT-013"
    """Memory of a GPU or a node did not read back as it was written."""
    SLOW_VOLUME = "ST-PREFLIGHT-014"
    """A node writes to the volume more slowly than the floor."""
    GPU_ERRORS = "ST-PREFLIGHT-015"
    """A GPU has uncorrectable ECC errors, or needs a reset to replace faulty memory."""
    VERSIONS = "ST-PREFLIGHT-016"
    """A node has a different version of NCCL than the other nodes."""
