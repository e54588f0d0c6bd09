# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which checkpoint a start goes on from, as far as one reader can tell; pure.

Candidates are tried newest first. What was passed by is told. Without a good one a run begins at
step 0 only where nothing was ever saved: what was saved and cannot be used is a person's to decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.checkpoints.inventory import Checkpoint, State
from seatrial.checkpoints.stopping import StopCode, StopError, stop
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """What a start wants to load."""

    address: str
    step: int | None = None
    """The step that somebody asked for; the newest good one when absent."""
    foreign: bool = False
    """Whether weights of another make are meant: those have no record."""
    borrowed: bool = False
    """Whether they are another run's: nothing is changed there that can stay as it is."""


def candidates(request: ResumeRequest, there: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints to try, best first."""
    wanted = [one for one in there if request.step in (None, one.step)]
    return [one for one in wanted if one.record is not None]


def nothing_good(
    request: ResumeRequest, there: Sequence[Checkpoint], tracked: int | None
) -> StopError | None:
    """Why a start without a good checkpoint must not begin at step 0; none where it may."""
    recorded = [one for one in there if one.state is not State.TORN]
    if request.step is not None:
        rule = f"the checkpoint of step {request.step} is asked for, and cannot be used."
        fix = "Ask for another step, or for none: the newest good one is then taken."
        code = CheckpointCode.NONE_GOOD
    elif recorded:
        rule = f"none of {len(recorded)} checkpoints can be used; the findings before say why."
        fix = "Restore one from a copy, or move them away to begin at step 0."
        code = CheckpointCode.NONE_GOOD
    elif tracked is not None and not request.foreign:
        rule = "there are checkpoints without a record, which nobody has verified."
        fix = (
            "Give this run a location of its own; or, if they are yours and whole, take their "
            "weights up as initial_weights. Move them away to begin at step 0."
        )
        code = CheckpointCode.UNRECORDED
    else:
        return None
    return stop(StopCode.NO_CHECKPOINT, found(code, request.address, rule, fix))


def tracker_finding(request: ResumeRequest, chosen: int, tracked: int | None) -> Finding | None:
    """What is wrong with the engine's tracker, which is then replaced."""
    if tracked in (None, chosen) or request.step is not None:
        return None
    said = "holds no step" if tracked == -1 else f"names step {tracked}"
    rule = f"the engine's tracker {said}, and step {chosen} is the newest good one."
    where = f"{request.address}/latest_checkpointed_iteration.txt"
    fix = "Nothing needs doing: it is replaced."
    return found(CheckpointCode.TRACKER, where, rule, fix, severity=Severity.WARNING)
