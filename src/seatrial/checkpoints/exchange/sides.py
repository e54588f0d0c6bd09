# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an export asks about the checkpoints of an engine, by what their record says."""

from seatrial.checkpoints.exchange.key_map import ExchangeSide
from seatrial.checkpoints.setup import Setup
from seatrial.checkpoints.stored_tensors import Contents
from seatrial.spec.engine import DEFAULT_ENGINE, ENGINE_CLASSES, engine_named
from seatrial.storage.location import Location


def engine_of(setup: Setup) -> str:
    """The name of the engine that wrote the checkpoints of a setup."""
    saved_as = setup.checkpoint_format
    wrote = (one for one in ENGINE_CLASSES if saved_as in engine_named(one).checkpoints.formats)
    return next(wrote, DEFAULT_ENGINE)


def side_of(setup: Setup) -> ExchangeSide:
    """How the checkpoints of a setup are understood."""
    side: ExchangeSide = engine_named(engine_of(setup)).checkpoints.exchange
    return side


def contents_at(place: Location, directory: str, setup: Setup) -> Contents:
    """What a verified checkpoint holds; UnsafeFileError if its engine did not write it."""
    engine = engine_named(engine_of(setup))
    contents: Contents = engine.checkpoints.contents(place, directory, setup)
    return contents
