# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Retention: decide which checkpoints to keep, and delete the others.

Every policy keeps the last two verified checkpoints, because the newest may turn out to be damaged
on resume. If fewer than two are verified, the newest unverified ones are kept too.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import batched
from pathlib import Path

from seatrial.checkpoints.inventory import Checkpoint, State, look
from seatrial.checkpoints.naming import RECORD
from seatrial.storage.location import LocalPlace, Location

SAFE = 2
"""Number of verified checkpoints that are always kept."""
TORN = "torn"
"""The reason for deleting a checkpoint that was never committed."""
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Policy:
    last: int = 3
    """The number of newest checkpoints to keep."""
    every_steps: int | None = None
    """Also keep the checkpoints whose step is divisible by this number."""
    best: int = 0
    """Also keep this many checkpoints with the lowest validation loss."""


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """The decision about one checkpoint."""

    directory: str
    step: int
    kept: bool
    why: str
    size: int
    """In bytes; 0 if the record is missing or damaged."""


def decide(
    there: Sequence[Checkpoint], aside: Mapping[str, str | None], policy: Policy
) -> list[RetentionDecision]:
    """Decide about each checkpoint, newest first, and about those that were set aside."""
    committed = [one for one in there if one.state is State.COMMITTED]
    # The sort is stable, so both the verified and the unverified ones stay newest first.
    safe = sorted(committed, key=lambda one: not one.verified)[:SAFE]
    measured = [one for one in committed if one.record and one.record.validation_loss is not None]
    best = sorted(measured, key=_loss)[: policy.best]
    newest = committed[0].step if committed else -1
    decisions = []
    for one in there:
        why = _reason(one, committed, policy, best, safe, newest)
        size = one.record.shards.size if one.record else 0
        gone = {State.TORN: TORN, State.DAMAGED: "damaged"}.get(one.state, "older")
        decisions.append(RetentionDecision(one.directory, one.step, bool(why), why or gone, size))
    for name, pinned in aside.items():
        why = "its step was saved again" if pinned is None else _pinned(pinned)
        decisions.append(RetentionDecision(name, -1, pinned is not None, why, 0))
    return decisions


def _pinned(why: str) -> str:
    return f"pinned: {why}" if why else "pinned"


def _loss(one: Checkpoint) -> float:
    loss = one.record.validation_loss if one.record else None
    return float("inf") if loss is None else loss


def _reason(
    one: Checkpoint,
    committed: Sequence[Checkpoint],
    policy: Policy,
    best: Sequence[Checkpoint],
    safe: Sequence[Checkpoint],
    newest: int,
) -> str:
    """Return why a checkpoint is kept; empty if it may be deleted."""
    if one.pinned is not None:
        return _pinned(one.pinned)
    if one.is_foreign:
        return "not saved by Seatrial"
    if one.state is State.TORN:
        return "the save may still be in progress" if one.step > newest else ""
    if one.state is State.DAMAGED:
        return "" if len(committed) >= SAFE else "too few other checkpoints"
    if one in committed[: policy.last]:
        return f"one of the last {policy.last}"
    if one in safe:
        return "one of the last two verified" if one.verified else "too few verified checkpoints"
    if policy.every_steps and one.step % policy.every_steps == 0:
        return f"a multiple of {policy.every_steps:,} steps"
    if one in best:
        return f"validation loss {_loss(one):.4g}"
    return ""


def retire(place: Location, decision: RetentionDecision) -> bool:
    """Delete a checkpoint, unless it was committed after the decision."""
    if decision.why == TORN and look(place, decision.directory).state is State.COMMITTED:
        return False
    remove(place, decision.directory)
    return True


def remove(place: Location, directory: str) -> None:
    """Delete a checkpoint, record first, so that a partially deleted one is never valid."""
    local = Path(place.address, directory) if isinstance(place, LocalPlace) else None
    if local is not None and local.is_symlink():
        # Delete only the link, not its target.
        local.unlink()
        return
    place.store.delete([f"{directory}/{RECORD}"])
    if local is not None:
        with suppress(FileNotFoundError):
            shutil.rmtree(local)
        return
    names = (f"{directory}/{name}" for name in place.names(directory))
    for some in batched(names, _BATCH):
        place.store.delete(some)
