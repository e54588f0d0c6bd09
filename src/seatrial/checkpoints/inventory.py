# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""List checkpoints by their records, without reading their files."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum

from seatrial.checkpoints.naming import (
    OWN_DIRECTORY,
    PIN,
    VERIFIED,
    all_namings,
    incarnation_of,
    is_marked,
    is_set_aside,
    is_shard,
    step_of,
)
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.verification import read_record
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.findings import Finding, Severity
from seatrial.hashing import canonical_json
from seatrial.storage.location import Location
from seatrial.storage.state_files import decode, parse_json
from seatrial.storage.store import StoreError

SCANNER = 1
"""Version of the pickle scanner. A newer version rejects files that an older one accepted."""
_NO_NOTE = (OSError, StoreError, ValueError, TypeError, KeyError, RecursionError)


class State(StrEnum):
    """The state of a checkpoint, as far as it is known without reading its files."""

    COMMITTED = "committed"
    """The checkpoint has a record."""
    TORN = "torn"
    """The checkpoint has no record: the save was interrupted, or Seatrial did not save it."""
    DAMAGED = "damaged"
    """The record is damaged, or a verification found an error."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The last verification of a checkpoint."""

    at: str
    """UTC."""
    record: str
    """Identity of the record that the files were compared with."""
    files: int
    """Number of files read; fewer than in the record while the verification is incomplete."""
    wrong: int
    """Number of errors found."""
    scanner: int = 0
    """Version of the scanner; 0 in notes that were written before the scanner had a version."""

    def to_bytes(self) -> bytes:
        return canonical_json(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One of a run's checkpoints."""

    directory: str
    step: int
    """The step in the directory name."""
    state: State
    record: Record | None
    """None if the record is missing or damaged."""
    findings: tuple[Finding, ...] = ()
    """Problems with the record."""
    verification: Verification | None = None
    """The last verification; None if this record was never verified."""
    pinned: str | None = None
    """The reason why the checkpoint is pinned; None if it is not pinned."""

    @property
    def is_foreign(self) -> bool:
        """True if Seatrial did not save it."""
        return any(finding.code == CheckpointCode.UNRECORDED for finding in self.findings)

    @property
    def verified(self) -> bool:
        """True if all files were verified without errors."""
        if self.record is None or self.verification is None:
            return False
        whole = self.verification.files == self.record.shards.files
        return whole and self.verification.wrong == 0


def checkpoints(place: Location) -> Iterator[Checkpoint]:
    """Yield the checkpoints of a run, newest first."""
    steps = {step: name for name in place.directories() if (step := step_of(name)) is not None}
    for step in sorted(steps, reverse=True):
        one = look(place, steps[step])
        if one.state is State.TORN and _is_foreign(place, one.directory):
            one = replace(one, findings=(_foreign(f"{place.address}/{one.directory}"),))
        yield one


def set_aside(place: Location) -> dict[str, str | None]:
    """Return the directories of checkpoints whose step was saved again, with their pins."""
    return {name: _pin(place, name) for name in place.directories() if is_set_aside(name)}


def look(place: Location, directory: str) -> Checkpoint:
    """Read one checkpoint's record, verification and pin."""
    record, findings = read_record(place, directory)
    verification = _verification(place, directory, record)
    state = State.COMMITTED
    if record is None:
        torn = all(finding.code == CheckpointCode.TORN for finding in findings)
        state = State.TORN if torn else State.DAMAGED
    elif verification is not None and verification.wrong:
        state = State.DAMAGED
    step = step_of(directory)
    return Checkpoint(
        directory,
        -1 if step is None else step,
        state,
        record,
        tuple(findings),
        verification,
        _pin(place, directory) if record is not None else None,
    )


def _is_foreign(place: Location, directory: str) -> bool:
    """True if nothing shows that Seatrial saved a checkpoint that has no record."""
    try:
        names = list(place.names(directory))
        is_ours = OWN_DIRECTORY in place.directories()
    except (OSError, StoreError):
        return False
    if any(incarnation_of(name) is not None for name in names):
        return False
    return not is_ours or (is_marked(directory) and any(map(is_shard, names)))


def _foreign(where: str) -> Finding:
    rule = "Seatrial did not save this checkpoint, or saved it with FSDP: there is no record."
    fix = (
        "Seatrial does not verify, resume or delete it. To start a run with its weights, set "
        "initial_weights.checkpoint to this location."
    )
    return found(CheckpointCode.UNRECORDED, where, rule, fix, severity=Severity.WARNING)


def newest_step(place: Location) -> int:
    """Return the newest step whose checkpoint is not known to be damaged; 0 if there is none."""
    return next((one.step for one in checkpoints(place) if one.state is State.COMMITTED), 0)


def tracked_step(place: Location) -> int | None:
    """Return the step in an engine's tracker file.

    None if there is no tracker, -1 if its content is not a number.
    """
    for tracker in filter(None, (naming.tracker for naming in all_namings())):
        try:
            text = place.store.read(tracker).decode("ascii", "replace").strip()
        except FileNotFoundError:
            continue
        return int(text) if text.isdigit() and len(text) <= 12 else -1
    return None


def _verification(place: Location, directory: str, record: Record | None) -> Verification | None:
    """Return the last verification, if the checkpoint still has the same record."""
    if record is None:
        return None
    try:
        seen = decode(Verification, parse_json(place.store.read(f"{directory}/{VERIFIED}")))
        datetime.fromisoformat(seen.at)
        counted = all(type(number) is int and number >= 0 for number in (seen.files, seen.wrong))
    except _NO_NOTE:
        # No digest protects a note. A note can skip the comparison of files, never the scan.
        return None
    current = seen.wrong or seen.scanner == SCANNER
    return seen if counted and current and seen.record == record.identity else None


def _pin(place: Location, directory: str) -> str | None:
    try:
        return str(parse_json(place.store.read(f"{directory}/{PIN}"))["why"])
    except FileNotFoundError:
        return None
    except _NO_NOTE:
        # A damaged pin still protects the checkpoint.
        return "the pin file cannot be read"
