# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The probe that reads checkpoints: records only, however large what they speak of is."""

from functools import cache
from pathlib import Path

from seatrial.checkpoints.inventory import State, checkpoints, tracked_step
from seatrial.checkpoints.place import place_at
from seatrial.checks.data_facts import Unknown
from seatrial.checks.saved.facts import PlaceFacts, SavedFacts
from seatrial.errors import SeatrialError


class CheckpointReader:
    """Reads checkpoints where this host sees them."""

    def __init__(self, *, stores: bool = False) -> None:
        """Read directories, and object stores too where that is wanted."""
        self._stores = stores
        self.at = cache(self._at)

    def _at(self, address: str) -> PlaceFacts | Unknown:
        """What lies at a place; a place that is not there may be on a volume elsewhere."""
        seen = self._stores if "://" in address else Path(address).is_dir()
        if not seen:
            return Unknown.UNSEEN
        try:
            place = place_at(address)
            saved = tuple(
                SavedFacts(
                    one.step,
                    one.record.setup if one.record is not None else None,
                    one.record.consumed_samples if one.record is not None else 0,
                    one.state is not State.TORN,
                )
                for one in checkpoints(place)
            )
            return PlaceFacts(saved, tracked_step(place))
        except (SeatrialError, OSError):
            return Unknown.UNSEEN
