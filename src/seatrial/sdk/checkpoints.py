# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run's checkpoints: locate, select, list and verify them, export and import weights."""

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

ELSEWHERE = "For checkpoints on a run's volume in a cluster, pass the spec and --on kubernetes."
"""The hint for a host that sees no checkpoints."""
LARGEST_EVENT_LOG = 64 << 20
"""Bytes; a larger log would make a list slow."""


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


def export_weights(checkpoint: PathOrText, to: PathOrText) -> dict[str, Any]:
    """Export a checkpoint's weights for Hugging Face transformers. Return the export's record.

    Args:
        checkpoint: The directory of one checkpoint, such as `saved/iter_0000200`. Verified first.
        to: The output directory. It must be empty or missing.
    """
    source, _, directory = str(checkpoint).rstrip("/").rpartition("/")
    record, findings = read_record(place_at(source or "."), directory)
    if record is None:
        raise FindingsError(findings)
    engine = ENGINES[engine_of(record.setup)]
    return export_by_worker(source or ".", directory, Path(to), engine=engine)


def import_weights(source: PathOrText, to: PathOrText) -> dict[str, Any]:
    """Import Hugging Face weights as a step-0 checkpoint. Its `spec` starts a run from them.

    Args:
        source: A directory with config.json and safetensors weights.
        to: The output directory. It must be empty or missing.
    """
    return import_by_worker(Path(source), Path(to).absolute())
