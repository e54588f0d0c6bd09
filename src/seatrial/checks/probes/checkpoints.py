# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The probe that reads checkpoints: records and tensor lists, but no tensors."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from seatrial.checkpoints.inventory import Checkpoint, State, checkpoints, tracked_step
from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.stored_tensors import stored_items
from seatrial.checks.probe_facts import PlaceFacts, SavedFacts, Unknown
from seatrial.errors import SeatrialError
from seatrial.storage.location import Location, place_at

LARGEST = 1 << 25
"""The largest tensor list to read, in bytes; the lists of very large runs take too long."""


class CheckpointReader:
    """Reads checkpoints that are accessible from this host."""

    def __init__(self, *, stores: bool = False, here: bool = False) -> None:
        """Read directories and, optionally, object stores.

        Args:
            stores: True to read object stores.
            here: True if the run is on this host, so a missing directory is reported as absent.
        """
        self._stores, self._here = stores, here
        self.at = cache(self._at)

    def _at(self, address: str) -> PlaceFacts | Unknown:
        """Return the checkpoints at a location. A missing one may be on an unmounted volume."""
        seen = self._stores if "://" in address else Path(address).is_dir()
        if not seen:
            absent = self._here and "://" not in address
            return Unknown.ABSENT if absent else Unknown.UNSEEN
        try:
            place = place_at(address)
            there = list(checkpoints(place))
            saved = [_facts(one) for one in there]
            for number, one in enumerate(saved):
                if one.whole:
                    # Read only the newest list: lists can be large, and there may be hundreds.
                    found = _has_optimizer(place, there[number].directory)
                    saved[number] = replace(one, has_optimizer=found)
                    break
            return PlaceFacts(tuple(saved), tracked_step(place))
        except (SeatrialError, OSError):
            return Unknown.UNSEEN


def _facts(one: Checkpoint) -> SavedFacts:
    """Return the facts in the record of a checkpoint."""
    if one.record is None:
        return SavedFacts(one.step, None, 0, one.state is not State.TORN)
    return SavedFacts(one.step, one.record.setup, one.record.consumed_samples)


def _has_optimizer(place: Location, directory: str) -> bool:
    """True if the tensor list contains optimizer state, or if it cannot be read."""
    size = place.size(f"{directory}/{METADATA}")
    if size is None or size > LARGEST:
        return True
    try:
        items = stored_items(place.store.read(f"{directory}/{METADATA}"))
    except (UnsafeFileError, SeatrialError, OSError):
        return True
    return any("optimizer" in item.name for item in items)
