# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for checkpoints."""

from enum import StrEnum

from seatrial.findings import Finding, Severity, Where


class CheckpointCode(StrEnum):
    """Problems with a checkpoint, or with resuming from one."""

    TORN = "ST-CHECKPOINT-001"
    """A save did not finish: the checkpoint has no record."""
    RECORD = "ST-CHECKPOINT-002"
    """The checkpoint record is unreadable, or differs from the record that was written."""
    OTHER_STEP = "ST-CHECKPOINT-003"
    """The step in the checkpoint record differs from the step in the directory name."""
    SHARD_LIST = "ST-CHECKPOINT-004"
    """The list of checkpoint shards is missing, or differs from the list that was written."""
    MISSING = "ST-CHECKPOINT-005"
    """A file listed in the checkpoint record is missing."""
    SIZE = "ST-CHECKPOINT-006"
    """The size of a file differs from the size that was written."""
    DIGEST = "ST-CHECKPOINT-007"
    """The content of a file differs from the content that was written."""
    UNLISTED = "ST-CHECKPOINT-008"
    """The engine would read a file that is not listed in the checkpoint record."""
    PICKLE = "ST-CHECKPOINT-009"
    """A pickle imports a name that no checkpoint needs; loading the file could execute code."""
    METADATA = "ST-CHECKPOINT-010"
    """The engine's tensor metadata is unreadable, or refers to missing files."""
    TRACKER = "ST-CHECKPOINT-011"
    """The engine's tracker file does not name a usable checkpoint."""
    NO_PROGRESS = "ST-CHECKPOINT-012"
    """Several consecutive starts have not produced a new checkpoint."""
    STALE = "ST-CHECKPOINT-013"
    """A process from an earlier start is still trying to save."""
    NONE_GOOD = "ST-CHECKPOINT-014"
    """Checkpoints exist, but none is usable."""
    UNRECORDED = "ST-CHECKPOINT-015"
    """A checkpoint was saved without a record, by another tool or with FSDP."""
    NODES_DIFFER = "ST-CHECKPOINT-016"
    """The nodes do not see the same checkpoint."""
    UNREADABLE = "ST-CHECKPOINT-017"
    """A file cannot be read."""


def found(
    code: CheckpointCode,
    where: str,
    rule: str,
    fix: str,
    value: str = "",
    severity: Severity = Severity.ERROR,
) -> Finding:
    """Build a finding about a file or directory in a checkpoint."""
    return Finding(code, severity, Where(file=where), rule, value, fix)
