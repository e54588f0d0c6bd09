# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The probe that reads checkpoints: records and lists of tensors, and no tensor."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from seatrial.checkpoints.inventory import Checkpoint, State, checkpoints, tracked_step
from seatrial.checkpoints.naming import METADATA, directory_name
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.stored_tensors import stored_items
from seatrial.checks.probe_facts import PlaceFacts, SavedFacts, Unknown
from seatrial.errors import SeatrialError
from seatrial.storage.location import Location, place_at

LARGEST = 1 << 25
"""Bytes of a list of tensors that is looked into; that of a very large run takes long."""


class CheckpointReader:
    """Reads checkpoints where this host sees them."""

    def __init__(self, *, stores: bool = False, here: bool = False) -> None:
        """Read directories, and object stores too where that is wanted.

        Args:
            stores: Whether object stores are read.
            here: Whether the run is on this host, so that what is not here is nowhere.
        """
        self._stores, self._here = stores, here
        self.at = cache(self._at)

    def _at(self, address: str) -> PlaceFacts | Unknown:
        """What lies at a place; a place that is not there may be on a volume elsewhere."""
        seen = self._stores if "://" in address else Path(address).is_dir()
        if not seen:
            absent = self._here and "://" not in address
            return Unknown.ABSENT if absent else Unknown.UNSEEN
        try:
            place = place_at(address)
            saved = [_facts(one) for one in checkpoints(place)]
            for number, one in enumerate(saved):
                if one.whole:
                    # Only of the newest: a list of tensors may be large, and there may be hundreds.
                    found = _has_optimizer(place, directory_name(one.step))
                    saved[number] = replace(one, has_optimizer=found)
                    break
            return PlaceFacts(tuple(saved), tracked_step(place))
        except (SeatrialError, OSError):
            return Unknown.UNSEEN


def _facts(one: Checkpoint) -> SavedFacts:
    """One checkpoint, as its record tells it."""
    if one.record is None:
        return SavedFacts(one.step, None, 0, one.state is not State.TORN)
    return SavedFacts(one.step, one.record.setup, one.record.consumed_samples)


def _has_optimizer(place: Location, directory: str) -> bool:
    """Whether the engine's list of tensors has the optimizer's; yes where it cannot be read."""
    size = place.size(f"{directory}/{METADATA}")
    if size is None or size > LARGEST:
        return True
    try:
        items = stored_items(place.store.read(f"{directory}/{METADATA}"))
    except (UnsafeFileError, SeatrialError, OSError):
        return True
    return any("optimizer" in item.name for item in items)
