# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Select the checkpoint that a start resumes from, based on what one reader sees. Pure.

Candidates are tried newest first, and skipped ones are reported. Without a good checkpoint, a run
starts at step 0 only if no checkpoint was ever saved. Otherwise the user must decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.checkpoints.inventory import Checkpoint, State
from seatrial.checkpoints.stopping import StopCode, StopError, stop
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """The checkpoint that a start wants to load."""

    address: str
    step: int | None = None
    """The requested step; None for the newest good checkpoint."""
    foreign: bool = False
    """True for weights that Seatrial did not save, which have no record."""
    borrowed: bool = False
    """True if the checkpoints belong to a different run and must not be changed unnecessarily."""


def candidates(request: ResumeRequest, there: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints to try, best first."""
    wanted = [one for one in there if request.step in (None, one.step)]
    return [one for one in wanted if one.record is not None]


def nothing_good(
    request: ResumeRequest, there: Sequence[Checkpoint], tracked: int | None
) -> StopError | None:
    """Return why a run without a good checkpoint must not start at step 0; None if it may."""
    recorded = [one for one in there if one.state is not State.TORN]
    if request.step is not None:
        rule = f"the requested checkpoint at step {request.step} cannot be used."
        fix = "Request a different step, or omit the step to use the newest good checkpoint."
        code = CheckpointCode.NONE_GOOD
    elif recorded:
        rule = f"none of the {len(recorded)} checkpoints can be used; see the findings above."
        fix = "Restore a checkpoint from a backup, or move all of them away to start at step 0."
        code = CheckpointCode.NONE_GOOD
    elif tracked is not None and not request.foreign:
        rule = "the checkpoints in this location have no record, so they cannot be verified."
        fix = (
            "Use a different location for this run. If the checkpoints are yours and complete, use "
            "them as initial_weights. To start at step 0, move them away."
        )
        code = CheckpointCode.UNRECORDED
    else:
        return None
    return stop(StopCode.NO_CHECKPOINT, found(code, request.address, rule, fix))


def tracker_finding(
    request: ResumeRequest, tracker: str, chosen: int, tracked: int | None
) -> Finding | None:
    """Return a warning if the engine's tracker has the wrong step. The worker then replaces it."""
    if tracked in (None, chosen) or request.step is not None:
        return None
    said = "contains no step" if tracked == -1 else f"names step {tracked}"
    rule = f"the engine's tracker {said}, but the newest good checkpoint is at step {chosen}."
    where = f"{request.address}/{tracker}"
    fix = "No action needed: the worker replaces the tracker."
    return found(CheckpointCode.TRACKER, where, rule, fix, severity=Severity.WARNING)
