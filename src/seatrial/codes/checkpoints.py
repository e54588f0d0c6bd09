# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which checkpoints report."""

from enum import StrEnum

from seatrial.findings import Finding, Severity, Where


class CheckpointCode(StrEnum):
    """What can be wrong with a checkpoint, or with starting from one; the codes are stable."""

    TORN = "ST-CHECKPOINT-001"
    """A save did not come to its end: there is no record."""
    RECORD = "ST-CHECKPOINT-002"
    """The record cannot be read, or is not what was written."""
    OTHER_STEP = "ST-CHECKPOINT-003"
    """The record is of another step than the directory."""
    SHARD_LIST = "ST-CHECKPOINT-004"
    """The list of checkpoint shards is missing, or is not what was written."""
    MISSING = "ST-CHECKPOINT-005"
    """A file that the record names is not there."""
    SIZE = "ST-CHECKPOINT-006"
    """A file has another size than was written."""
    DIGEST = "ST-CHECKPOINT-007"
    """A file has other content than was written."""
    UNLISTED = "ST-CHECKPOINT-008"
    """The engine would read a file that the record does not name."""
    PICKLE = "ST-CHECKPOINT-009"
    """A pickle asks for something that no checkpoint needs; loading it could run code."""
    METADATA = "ST-CHECKPOINT-010"
    """The engine's own list of tensors cannot be read, or points at files that are not there."""
    TRACKER = "ST-CHECKPOINT-011"
    """The engine's tracker names no checkpoint that can be used."""
    NO_PROGRESS = "ST-CHECKPOINT-012"
    """Several starts in a row have come to no new checkpoint."""
    STALE = "ST-CHECKPOINT-013"
    """A process of an earlier start still wants to save."""
    NONE_GOOD = "ST-CHECKPOINT-014"
    """There are checkpoints, and none of them can be used."""
    UNRECORDED = "ST-CHECKPOINT-015"
    """There are checkpoints that were saved without a record."""
    NODES_DIFFER = "ST-CHECKPOINT-016"
    """Nodes do not see the same checkpoint."""
    UNREADABLE = "ST-CHECKPOINT-017"
    """A file cannot be read at all."""


def found(
    code: CheckpointCode,
    where: str,
    rule: str,
    fix: str,
    value: str = "",
    severity: Severity = Severity.ERROR,
) -> Finding:
    """A finding about a file or directory of a checkpoint."""
    return Finding(code, severity, Where(file=where), rule, value, fix)
