# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Starts of a run's processes, recorded next to its checkpoints.

Each start claims the next number, its incarnation, by creating a file atomically. A process that
finds a higher number than its own has been replaced and must no longer commit. The same files
record how many starts made no progress, so this count survives pod restarts.
"""

import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from seatrial.checkpoints.naming import STARTS
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.errors import SeatrialError
from seatrial.findings import Finding
from seatrial.hashing import canonical_json
from seatrial.storage.location import Location
from seatrial.storage.state_files import DamagedError, decode, parse_json
from seatrial.storage.store import StoreError

FRUITLESS_STARTS = 5
"""Number of consecutive starts without a new checkpoint after which a run stops."""
_FILE = re.compile(r"(?P<number>\d{7,})\.json")
_TRIES = 1000


class StaleStartError(SeatrialError):
    """A process from an earlier start tried to commit. The message names the later start."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a run's processes."""

    incarnation: int
    """The number of this start, counted from 1."""
    attempt: str
    """The attempt that this start belongs to; empty if unknown."""
    newest_step: int
    """The newest step that had a checkpoint not known to be damaged when this start began; 0 if
    there was none."""
    started_at: str
    """UTC."""

    def to_bytes(self) -> bytes:
        return canonical_json(asdict(self)).encode()


def claim(place: Location, attempt: str, newest_step: int) -> Start:
    """Claim the next incarnation. Earlier starts can no longer commit."""
    number = newest_incarnation(place) + 1
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for candidate in range(number, number + _TRIES):
        start = Start(candidate, attempt, newest_step, now)
        if place.store.create(_path(candidate), start.to_bytes()):
            return start
    raise SeatrialError(
        f"{place.address}/{STARTS}: the next {_TRIES} start numbers are already taken. Check which "
        "processes write to this directory."
    )


def newest_incarnation(place: Location) -> int:
    """Return the number of the last start; 0 if there was none."""
    return max(_numbers(place), default=0)


def refuse_stale(place: Location, incarnation: int) -> None:
    """Raise StaleStartError if there is a later start."""
    newest = newest_incarnation(place)
    if newest > incarnation:
        raise StaleStartError(
            f"{CheckpointCode.STALE} {place.address}: start {incarnation} of this run was replaced "
            f"by start {newest} and must no longer save checkpoints. Stop the processes of start "
            f"{incarnation}."
        )


def read_starts(place: Location, last: int) -> list[Start]:
    """Return the last starts, oldest first. Skips starts whose file cannot be read."""
    numbers = sorted(_numbers(place))[-last:]
    starts = []
    for number in numbers:
        try:
            starts.append(decode(Start, parse_json(place.store.read(_path(number)))))
        except (DamagedError, StoreError, FileNotFoundError):
            continue
    return starts


def no_progress(
    starts: list[Start], address: str, allowed: int = FRUITLESS_STARTS
) -> Finding | None:
    """Return the finding that stops a run whose last starts produced no new checkpoint.

    The last element of `starts` is the current start. A new attempt resets the count, because a
    user has intervened.
    """
    present = starts[-1]
    fruitless = 0
    for start in reversed(starts[:-1]):
        if start.attempt != present.attempt or start.newest_step < present.newest_step:
            break
        fruitless += 1
    if fruitless < allowed:
        return None
    rule = (
        f"{fruitless} consecutive starts produced no checkpoint after step {present.newest_step}; "
        "restarting again is unlikely to help."
    )
    fix = "Find the cause with seatrial logs, fix it, and launch again."
    return found(CheckpointCode.NO_PROGRESS, address, rule, fix, str(fruitless))


def _path(number: int) -> str:
    return f"{STARTS}/{number:07d}.json"


def _numbers(place: Location) -> list[int]:
    matches = (_FILE.fullmatch(name) for name in place.names(STARTS))
    return [int(match["number"]) for match in matches if match]
