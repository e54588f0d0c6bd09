# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Select the checkpoint that a start resumes from, as far as one reader can tell. Pure.

Candidates are tried newest first, and skipped ones are reported. Without a good checkpoint, a run
starts at step 0 only if nothing was ever saved. Otherwise the user must decide.
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
    """The requested step; None for the newest good one."""
    foreign: bool = False
    """True for weights that Seatrial did not save, which have no record."""
    borrowed: bool = False
    """True if they belong to another run, which must not be changed unnecessarily."""


def candidates(request: ResumeRequest, there: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints to try, best first."""
    wanted = [one for one in there if request.step in (None, one.step)]
    return [one for one in wanted if one.record is not None]


def nothing_good(
    request: ResumeRequest, there: Sequence[Checkpoint], tracked: int | None
) -> StopError | None:
    """Return why a start without a good checkpoint must not begin at step 0; None if it may."""
    recorded = [one for one in there if one.state is not State.TORN]
    if request.step is not None:
        rule = f"the requested checkpoint at step {request.step} cannot be used."
        fix = "Request another step, or none to use the newest good checkpoint."
        code = CheckpointCode.NONE_GOOD
    elif recorded:
        rule = f"none of {len(recorded)} checkpoints can be used; the findings above state why."
        fix = "Restore one from a copy, or move them away to start at step 0."
        code = CheckpointCode.NONE_GOOD
    elif tracked is not None and not request.foreign:
        rule = "there are checkpoints without a record, which cannot be verified."
        fix = (
            "Use another location for this run. If they are yours and complete, use them as "
            "initial_weights. To start at step 0, move them away."
        )
        code = CheckpointCode.UNRECORDED
    else:
        return None
    return stop(StopCode.NO_CHECKPOINT, found(code, request.address, rule, fix))


def tracker_finding(
    request: ResumeRequest, tracker: str, chosen: int, tracked: int | None
) -> Finding | None:
    """Report a wrong step in the engine's tracker, which is then replaced."""
    if tracked in (None, chosen) or request.step is not None:
        return None
    said = "contains no step" if tracked == -1 else f"names step {tracked}"
    rule = f"the engine's tracker {said}, but step {chosen} is the newest good one."
    where = f"{request.address}/{tracker}"
    fix = "No action needed: it is replaced."
    return found(CheckpointCode.TRACKER, where, rule, fix, severity=Severity.WARNING)
