# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which checkpoints there are, without looking at their files: the record tells the rest."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum

from seatrial.checkpoints.naming import PIN, TRACKER, VERIFIED, is_set_aside, step_of
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.verification import read_record
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.findings import Finding
from seatrial.hashing import canonical_json
from seatrial.storage.location import Location
from seatrial.storage.state_files import decode, parse_json
from seatrial.storage.store import StoreError

SCANNER = 1
"""Counts the versions of the scanner of pickles; a newer one finds what an older one passed."""
_NO_NOTE = (OSError, StoreError, ValueError, TypeError, KeyError, RecursionError)


class State(StrEnum):
    """What is known of a checkpoint without reading it."""

    COMMITTED = "committed"
    """It has a record."""
    TORN = "torn"
    """It has none: the save did not come to its end."""
    DAMAGED = "damaged"
    """Its record is not what was written, or a verification found something wrong."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The last time that a checkpoint was read again."""

    at: str
    """When, in UTC."""
    record: str
    """Identity of the record that it was compared with."""
    files: int
    """Files that were read; fewer than the record has, while it goes on."""
    wrong: int
    """How many findings there were."""
    scanner: int = 0
    """Version of the scanner; 0 in notes from before there was one."""

    def to_bytes(self) -> bytes:
        """As it is stored."""
        return canonical_json(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint of a run."""

    directory: str
    step: int
    """The step that the name says."""
    state: State
    """What is known of it."""
    record: Record | None
    """Its record, where it can be read."""
    findings: tuple[Finding, ...] = ()
    """What is wrong with the record."""
    verification: Verification | None = None
    """When it was last verified; none where it never was as it is now."""
    pinned: str | None = None
    """Why it is never pruned; none where it may be."""

    @property
    def verified(self) -> bool:
        """Whether it was read whole and nothing was wrong."""
        if self.record is None or self.verification is None:
            return False
        whole = self.verification.files == self.record.shards.files
        return whole and self.verification.wrong == 0


def checkpoints(place: Location) -> Iterator[Checkpoint]:
    """The checkpoints of a run, newest first, one at a time."""
    steps = {step: name for name in place.directories() if (step := step_of(name)) is not None}
    for step in sorted(steps, reverse=True):
        yield look(place, steps[step])


def set_aside(place: Location) -> dict[str, str | None]:
    """Directories of checkpoints whose step was saved again, each with why it is pinned, if so."""
    return {name: _pin(place, name) for name in place.directories() if is_set_aside(name)}


def look(place: Location, directory: str) -> Checkpoint:
    """One checkpoint, by its directory's name."""
    record, findings = read_record(place, directory)
    verification = _verification(place, directory, record)
    state = State.COMMITTED
    if record is None:
        torn = [finding.code == CheckpointCode.TORN for finding in findings]
        state = State.TORN if all(torn) else State.DAMAGED
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


def newest_step(place: Location) -> int:
    """The step of the newest checkpoint that is not known to be damaged; 0 without any."""
    return next((one.step for one in checkpoints(place) if one.state is State.COMMITTED), 0)


def tracked_step(place: Location) -> int | None:
    """The step that the engine's tracker names; none without one, -1 where it is no number."""
    try:
        text = place.store.read(TRACKER).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() and len(text) <= 12 else -1


def _verification(place: Location, directory: str, record: Record | None) -> Verification | None:
    """The last verification, if it was of this very record."""
    if record is None:
        return None
    try:
        seen = decode(Verification, parse_json(place.store.read(f"{directory}/{VERIFIED}")))
        datetime.fromisoformat(seen.at)
        counted = all(type(number) is int and number >= 0 for number in (seen.files, seen.wrong))
    except _NO_NOTE:
        # No digest protects a note. It spares comparing files again, never scanning them.
        return None
    current = seen.wrong or seen.scanner == SCANNER
    return seen if counted and current and seen.record == record.identity else None


def _pin(place: Location, directory: str) -> str | None:
    try:
        return str(parse_json(place.store.read(f"{directory}/{PIN}"))["why"])
    except FileNotFoundError:
        return None
    except _NO_NOTE:
        # Somebody wanted to keep it; half a pin keeps it too.
        return "a pin that cannot be read"
