# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a run: where they are, which one is meant, and weights out of and into them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from seatrial.checkpoints.by_engine import engine_of, setup_of
from seatrial.checkpoints.inventory import Checkpoint, State, checkpoints, look
from seatrial.checkpoints.naming import step_of
from seatrial.checkpoints.resumable_verification import verify_noting
from seatrial.checkpoints.verdict import ResumeVerdict, verdict
from seatrial.checkpoints.verification import read_record
from seatrial.engine_process.weights import export_weights as export_by_worker
from seatrial.engine_process.weights import import_weights as import_by_worker
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.runs.history.files import EVENT_LOG
from seatrial.sdk.data import refuse_secret
from seatrial.sdk.plan import Overrides, PathOrText, override_texts, plan
from seatrial.storage.location import Location, place_at

ELSEWHERE = "If the run's volume is on a cluster, give its spec and --on kubernetes."
"""Why a host may see no checkpoints of a run that has some."""
LARGEST_EVENT_LOG = 64 << 20
"""Bytes; a larger log would make a list slow."""


def is_spec(where: str) -> bool:
    """Whether a word names a spec and not a place."""
    return where.endswith((".yaml", ".yml")) and "://" not in where


def place_of(where: str, overrides: Overrides = ()) -> Location:
    """Where the checkpoints of a spec, or of an address, are."""
    refuse_secret(where)
    if is_spec(where):
        return place_at(plan(Path(where), overrides).checkpoint_location)
    if overrides:
        raise UsageError(f"{override_texts(overrides)[0]} changes a spec, and {where} is none.")
    return place_at(where)


def checkpoint_at(place: Location, step: int | None) -> Checkpoint:
    """The checkpoint of a step, or the newest committed one."""
    if step is not None:
        named = [name for name in place.directories() if step_of(name) == step]
        if not named:
            raise UsageError(f"{place.address} has no checkpoint of step {step:,}.")
        return look(place, named[0])
    passed_by = 0
    for one in checkpoints(place):
        if one.state is State.COMMITTED:
            return one
        passed_by += 1
    if passed_by:
        raise UsageError(
            f"{place.address} has no checkpoint to use: each of its {passed_by:,} is torn "
            f"or damaged. `seatrial checkpoints verify {place.address}` says how."
        )
    raise UsageError(f"{place.address} has no committed checkpoint. {ELSEWHERE}")


def resume_verdict(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    at: PathOrText | None = None,
    step: int | None = None,
) -> tuple[Checkpoint, ResumeVerdict | None]:
    """A checkpoint, and whether a run can go on from it; no verdict if it was never committed.

    Args:
        path: The spec of the run that would go on.
        overrides: Fields to set differently.
        at: Where the checkpoints are; the run's own place when absent.
        step: The step of the checkpoint; the newest that was committed when absent.
    """
    refuse_secret(at)
    planned = plan(path, overrides)
    one = checkpoint_at(place_at(str(at or planned.checkpoint_location)), step)
    if one.record is None:
        return one, None
    return one, verdict(one.record.setup, setup_of(planned))


def list_checkpoints(where: PathOrText, overrides: Overrides = ()) -> list[Checkpoint]:
    """The checkpoints of a spec, or of an address, the newest first; only records are read."""
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
    # A step that was repeated after a restart counts as it was at last.
    losses = {event.step: event.values.get("loss") for event in events}
    return {step: loss for step, loss in losses.items() if isinstance(loss, float)}


def verify_checkpoint(
    where: PathOrText, overrides: Overrides = (), *, step: int | None = None, threads: int = 0
) -> list[Finding]:
    """Read a checkpoint again and compare every file with its record; nothing when all is well.

    Args:
        where: The spec of a run, or where its checkpoints are.
        overrides: Fields to set differently.
        step: The step of the checkpoint; the newest that was committed when absent.
        threads: Files read at a time; as many as cores, up to 8, for 0.
    """
    place = place_of(str(where), overrides)
    one = checkpoint_at(place, step)
    if one.record is None:
        return list(one.findings)
    return verify_noting(place, one, threads=threads, again=True)


def export_weights(checkpoint: PathOrText, to: PathOrText) -> dict[str, Any]:
    """Write a checkpoint's weights for Hugging Face's transformers; what the export's record says.

    Args:
        checkpoint: The directory of one checkpoint, such as `saved/iter_0000200`; it is verified.
        to: A directory that is empty or not there.
    """
    source, _, directory = str(checkpoint).rstrip("/").rpartition("/")
    record, findings = read_record(place_at(source or "."), directory)
    if record is None:
        raise FindingsError(findings)
    engine = ENGINES[engine_of(record.setup)]
    return export_by_worker(source or ".", directory, Path(to), engine=engine)


def import_weights(source: PathOrText, to: PathOrText) -> dict[str, Any]:
    """Write Hugging Face weights as a checkpoint of step 0; `spec` in it starts a run from there.

    Args:
        source: A directory with config.json and weights as safetensors.
        to: A directory that is empty or not there.
    """
    return import_by_worker(Path(source), Path(to).absolute())
