# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run's checkpoints: locate, select, list, verify, prune, pin and copy them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from seatrial.checkpoints.by_engine import setup_of
from seatrial.checkpoints.copying import copy
from seatrial.checkpoints.inventory import Checkpoint, State, checkpoints, look, set_aside
from seatrial.checkpoints.naming import step_of
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.resumable_verification import pin, unpin, verify_noting
from seatrial.checkpoints.retention import Policy, RetentionDecision, decide, retire
from seatrial.checkpoints.verdict import ResumeVerdict, verdict
from seatrial.errors import UsageError
from seatrial.findings import Finding
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.runs.history.files import EVENT_LOG
from seatrial.sdk.data import refuse_secret
from seatrial.sdk.plan import Overrides, PathOrText, override_texts, plan
from seatrial.storage.location import Location, place_at

ELSEWHERE = "For checkpoints on a run's volume in a cluster, pass the spec and --on kubernetes."
"""The hint for a host that sees no checkpoints."""
LARGEST_EVENT_LOG = 64 << 20
"""Bytes; a larger log would make a list slow."""
ReportBytes = Callable[[int, int], None]
"""A progress callback: takes the number of files and bytes done."""
WatchCheckpoint = Callable[[Checkpoint], AbstractContextManager[ReportBytes]]
"""Called before the files of a checkpoint are read; its context receives the progress."""


def unwatched(_: Checkpoint) -> AbstractContextManager[ReportBytes]:
    """Ignore the progress."""
    return nullcontext(lambda _files, _size: None)


def is_spec(where: str) -> bool:
    """True if the argument names a spec, not a location."""
    return where.endswith((".yaml", ".yml")) and "://" not in where


def place_of(where: str, overrides: Overrides = ()) -> Location:
    """Return the location of the checkpoints of a spec, or of an address."""
    refuse_secret(where)
    if is_spec(where):
        return place_at(plan(Path(where), overrides).checkpoint_location)
    if overrides:
        raise UsageError(f"{override_texts(overrides)[0]}: overrides need a spec, not {where}.")
    return place_at(where)


def checkpoint_at(place: Location, step: int | None) -> Checkpoint:
    """Return the checkpoint at a step, or the newest committed one."""
    if step is not None:
        named = [name for name in place.directories() if step_of(name) == step]
        if not named:
            raise UsageError(f"{place.address} has no checkpoint at step {step:,}.")
        return look(place, named[0])
    passed_by = 0
    for one in checkpoints(place):
        if one.state is State.COMMITTED:
            return one
        passed_by += 1
    if passed_by:
        raise UsageError(
            f"{place.address} has no usable checkpoint: {passed_by:,} found, all incomplete "
            f"or damaged. For details: seatrial checkpoints verify {place.address}"
        )
    raise UsageError(f"{place.address} has no committed checkpoint. {ELSEWHERE}")


def resume_verdict(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    at: PathOrText | None = None,
    step: int | None = None,
) -> tuple[Checkpoint, ResumeVerdict | None]:
    """Report whether a run can resume from a checkpoint. None if the checkpoint is not committed.

    Args:
        path: The spec of the run to resume.
        overrides: Fields to override.
        at: The checkpoint location. Default: the one in the spec.
        step: The step of the checkpoint. Default: the newest committed one.
    """
    refuse_secret(at)
    planned = plan(path, overrides)
    one = checkpoint_at(place_at(str(at or planned.checkpoint_location)), step)
    if one.record is None:
        return one, None
    return one, verdict(one.record.setup, setup_of(planned))


def list_checkpoints(where: PathOrText, overrides: Overrides = ()) -> list[Checkpoint]:
    """List the checkpoints of a spec or an address, newest first. Reads only the records."""
    return list(checkpoints(place_of(str(where), overrides)))


def training_losses(place: Location, steps: Iterable[int]) -> dict[int, float]:
    """Return the training loss at each step, from the run's event log next to its checkpoints.

    Empty if there is no log on this host, or if it is too large to read for a list.
    """
    wanted = set(steps)
    log = Path(place.address).parent / EVENT_LOG
    try:
        if not wanted or log.stat().st_size > LARGEST_EVENT_LOG:
            return {}
        events = [e for e in read_events(log) if e.kind is EventKind.STEP and e.step in wanted]
    except (OSError, ValueError):
        return {}
    # For a step that was repeated after a restart, the last value counts.
    losses = {event.step: event.values.get("loss") for event in events}
    return {step: loss for step, loss in losses.items() if isinstance(loss, float)}


@dataclass(frozen=True, slots=True)
class Inventory:
    """The checkpoints at one location."""

    address: str
    checkpoints: tuple[Checkpoint, ...]
    """Newest first."""
    set_aside: tuple[str, ...]
    """The directories of checkpoints whose step was saved again."""
    losses: dict[int, float]
    """The training losses by step, if this host has the run's event log."""


def inventory(where: PathOrText, overrides: Overrides = ()) -> Inventory:
    """List the checkpoints of a spec or an address with their training losses."""
    place = place_of(str(where), overrides)
    there = tuple(checkpoints(place))
    losses = training_losses(place, (one.step for one in there))
    return Inventory(place.address, there, tuple(set_aside(place)), losses)


def verify_checkpoint(
    where: PathOrText, overrides: Overrides = (), *, step: int | None = None, threads: int = 0
) -> list[Finding]:
    """Compare every file in a checkpoint with its record. Return findings, empty if intact.

    Args:
        where: A run's spec, or the location of its checkpoints.
        overrides: Fields to override.
        step: The step of the checkpoint. Default: the newest committed one.
        threads: Files to read in parallel. 0 means one per core, at most 8.
    """
    place = place_of(str(where), overrides)
    one = checkpoint_at(place, step)
    if one.record is None:
        return list(one.findings)
    return verify_noting(place, one, threads=threads, again=True)


@dataclass(frozen=True, slots=True)
class VerifiedCheckpoint:
    """A checkpoint and the result of its verification."""

    checkpoint: Checkpoint
    """Its state before the verification."""
    findings: tuple[Finding, ...]
    """The problems. Empty if it is intact."""
    is_skipped: bool
    """True if it was already verified and its files were not read again."""


def verify_checkpoints(
    where: PathOrText,
    overrides: Overrides = (),
    *,
    step: int | None = None,
    threads: int = 0,
    again: bool = False,
    watch: WatchCheckpoint | None = None,
) -> Iterator[VerifiedCheckpoint]:
    """Compare the files of all checkpoints with their records, newest checkpoint first.

    An interrupted verification continues where it stopped.

    Args:
        where: A run's spec, or the location of its checkpoints.
        overrides: Fields to override.
        step: Only the checkpoint of this step, even if it is already verified.
        threads: Files to read in parallel. 0 means one per core, at most 8.
        again: True to also read checkpoints that are already verified.
        watch: Receives the progress.
    """
    place = place_of(str(where), overrides)
    wanted = [checkpoint_at(place, step)] if step is not None else list(checkpoints(place))
    if not wanted:
        raise UsageError(f"no checkpoints in {place.address}. {ELSEWHERE}")
    whole = again or step is not None
    seen = watch or unwatched
    return (_verified(place, one, threads, seen, again=again, whole=whole) for one in wanted)


def _verified(
    place: Location,
    one: Checkpoint,
    threads: int,
    watch: WatchCheckpoint,
    *,
    again: bool,
    whole: bool,
) -> VerifiedCheckpoint:
    """Verify one checkpoint. `whole` reads it even if it is already verified."""
    is_skipped = one.verified and not whole
    if one.record is None:
        return VerifiedCheckpoint(one, one.findings, is_skipped)
    afresh = again or (whole and one.verified)
    with (unwatched if is_skipped else watch)(one) as tell:
        found = verify_noting(place, one, threads=threads, again=afresh, tell=tell)
    return VerifiedCheckpoint(one, tuple(found), is_skipped)


def retention_policy(
    where: PathOrText,
    overrides: Overrides = (),
    *,
    keep_last: int | None = None,
    keep_every_steps: int | None = None,
    keep_best: int = 0,
) -> Policy:
    """Return which checkpoints to keep. Defaults come from the spec, if `where` is one."""
    policy = Policy()
    if is_spec(str(where)):
        given = plan(Path(where), overrides).spec.checkpoints
        policy = Policy(given.keep_last, given.keep_every_steps)
    return Policy(keep_last or policy.last, keep_every_steps or policy.every_steps, keep_best)


def prune_checkpoints(
    where: PathOrText,
    overrides: Overrides = (),
    *,
    policy: Policy | None = None,
    delete: bool = False,
    decided: Callable[[Sequence[RetentionDecision]], None] | None = None,
) -> list[RetentionDecision]:
    """Decide which checkpoints to keep, and delete the others if `delete` is True.

    Always keeps the last two verified checkpoints and the pinned ones.

    Args:
        where: A run's spec, or the location of its checkpoints.
        overrides: Fields to override.
        policy: Which checkpoints to keep. Default: as in the spec, else the last three.
        delete: True to delete. Otherwise nothing changes.
        decided: Receives the decisions before anything is deleted.
    """
    place = place_of(str(where), overrides)
    policy = policy or retention_policy(where, overrides)
    decisions = decide(list(checkpoints(place)), set_aside(place), policy)
    if decided is not None:
        decided(decisions)
    for one in decisions:
        if delete and not one.kept:
            retire(place, one)
    return decisions


def pin_checkpoint(
    where: PathOrText, overrides: Overrides = (), *, step: int | None = None, why: str = ""
) -> Checkpoint:
    """Pin a checkpoint, so that it is never pruned.

    Args:
        where: A run's spec, or the location of its checkpoints.
        overrides: Fields to override.
        step: The step of the checkpoint. Default: the newest committed one.
        why: The reason, shown in the list.
    """
    place, one = _committed(where, overrides, step)
    pin(place, one.directory, why)
    return look(place, one.directory)


def unpin_checkpoint(
    where: PathOrText, overrides: Overrides = (), *, step: int | None = None
) -> Checkpoint:
    """Remove the pin of a checkpoint. Default: the newest committed one."""
    place, one = _committed(where, overrides, step)
    unpin(place, one.directory)
    return look(place, one.directory)


def _committed(
    where: PathOrText, overrides: Overrides, step: int | None
) -> tuple[Location, Checkpoint]:
    place = place_of(str(where), overrides)
    one = checkpoint_at(place, step)
    if one.record is None:
        raise UsageError(f"step {one.step:,} was never committed. Pin a committed checkpoint.")
    return place, one


def copy_checkpoint(
    where: PathOrText,
    to: PathOrText,
    overrides: Overrides = (),
    *,
    step: int | None = None,
    watch: WatchCheckpoint | None = None,
) -> Record:
    """Copy a checkpoint to another location and verify the copy. Return its record.

    If it is interrupted, call it again: files that are already copied are skipped.

    Args:
        where: A run's spec, or the location of its checkpoints.
        to: The target: a path, s3://, abfs:// or gs://.
        overrides: Fields to override.
        step: The step of the checkpoint. Default: the newest committed one.
        watch: Receives the progress.
    """
    refuse_secret(to)
    source, target = place_of(str(where), overrides), place_at(str(to))
    one = checkpoint_at(source, step)
    with (watch or unwatched)(one) as tell:
        return copy(source, one.directory, target, tell)
