# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Starts of a run's processes, written down beside its checkpoints.

Every start takes the next number, its incarnation, by creating a file that only one can create.
Whoever finds a higher number than its own has been replaced, and may not commit any more. The same
files tell how many starts have come to nothing, so that the count outlives pods.
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
"""Starts in a row without a new checkpoint after which a run stops."""
_FILE = re.compile(r"(?P<number>\d{7,})\.json")
_TRIES = 1000


class StaleStartError(SeatrialError):
    """A process of an earlier start wanted to commit; the text names the start that replaced it."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a run's processes."""

    incarnation: int
    """Its number; the first is 1."""
    attempt: str
    """The attempt that it belongs to; empty where nobody said."""
    newest_step: int
    """The step of the newest checkpoint that was not known to be damaged when it started; 0 without
    any."""
    started_at: str
    """When, in UTC."""

    def to_bytes(self) -> bytes:
        """The start as it is stored."""
        return canonical_json(asdict(self)).encode()


def claim(place: Location, attempt: str, newest_step: int) -> Start:
    """Take the next incarnation: from here on, no earlier start can commit."""
    number = newest_incarnation(place) + 1
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for candidate in range(number, number + _TRIES):
        start = Start(candidate, attempt, newest_step, now)
        if place.store.create(_path(candidate), start.to_bytes()):
            return start
    raise SeatrialError(f"{place.address}/{STARTS}: no number is free. Look at who starts there.")


def newest_incarnation(place: Location) -> int:
    """The number of the last start; 0 before the first."""
    return max(_numbers(place), default=0)


def refuse_stale(place: Location, incarnation: int) -> None:
    """Raise StaleStartError when a later start has begun."""
    newest = newest_incarnation(place)
    if newest > incarnation:
        raise StaleStartError(
            f"{CheckpointCode.STALE} {place.address}: start {incarnation} of this run was replaced "
            f"by start {newest}, and may not save any more. End its processes."
        )


def read_starts(place: Location, last: int) -> list[Start]:
    """The last starts, oldest first; one whose file cannot be read is left out."""
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
    """The finding that stops a run, when its last starts have come to no new checkpoint.

    The last of the given starts is the present one. A new attempt begins to count anew: a person
    has looked at the run in between.
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
        f"{fruitless} starts in a row came to no checkpoint after step {present.newest_step}; "
        "another would come to none either."
    )
    fix = "See why they ended (seatrial logs), mend it, and launch again."
    return found(CheckpointCode.NO_PROGRESS, address, rule, fix, str(fruitless))


def _path(number: int) -> str:
    return f"{STARTS}/{number:07d}.json"


def _numbers(place: Location) -> list[int]:
    matches = (_FILE.fullmatch(name) for name in place.names(STARTS))
    return [int(match["number"]) for match in matches if match]
