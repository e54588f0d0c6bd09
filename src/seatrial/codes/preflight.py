# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which a node reports before training."""

from enum import StrEnum


class PreflightCode(StrEnum):
    """What can be wrong with a node; the codes are stable."""

    GPUS = "ST-PREFLIGHT-001"
    """A node shows fewer GPUs than the plan counts on."""
    DEVICES = "ST-PREFLIGHT-002"
    """A node shows fewer devices of the fabric than the pod asked for."""
    SHARED_MEMORY = "ST-PREFLIGHT-003"
    """The shared memory is smaller than the plan counts on."""
    MOUNT = "ST-PREFLIGHT-004"
    """The volume is not mounted, or cannot be written."""
    ROOM = "ST-PREFLIGHT-005"
    """The volume has no room for a checkpoint."""
    TOGETHER = "ST-PREFLIGHT-006"
    """The nodes do not reach each other, or another one has findings; no fault of this node."""
    CLOCK = "ST-PREFLIGHT-007"
    """A node's clock differs from the others'."""
    NOT_SHARED = "ST-PREFLIGHT-008"
    """A node does not see what another has written to the volume."""
    SUM = "ST-PREFLIGHT-009"
    """An all-reduce gave a wrong sum."""
