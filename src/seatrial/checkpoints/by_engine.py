# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine of a plan, or of a record, says of its checkpoints."""

from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.setup import CheckpointFormat, Setup, Versions
from seatrial.checkpoints.stored_tensors import Contents
from seatrial.planning.plan import Plan
from seatrial.spec.engine import DEFAULT_ENGINE, ENGINE_CLASSES, engine_named
from seatrial.storage.location import Location
from seatrial.version import VERSION


def setup_of(plan: Plan) -> Setup:
    """What the plan's own checkpoints would depend on."""
    engine = engine_named(plan.spec.engine.name)
    versions = Versions(VERSION, engine.package, "")
    arguments, ranks = engine.arguments(plan), plan.layout.world_size
    setup: Setup = engine.checkpoints.setup(arguments, versions, ranks)
    return setup


def engine_of(setup: Setup) -> str:
    """The name of the engine that wrote the checkpoints of a setup."""
    saved_as = setup.checkpoint_format
    wrote = (one for one in ENGINE_CLASSES if saved_as in engine_named(one).checkpoints.formats)
    return next(wrote, DEFAULT_ENGINE)


def format_of(setup: Setup) -> CheckpointFormat:
    """What the engine of a setup can do with its checkpoints."""
    found: CheckpointFormat = engine_named(engine_of(setup)).checkpoints.format(setup)
    return found


def tokenizer_of(setup: Setup) -> str:
    """The kind and the name of the tokenizer of a setup."""
    tokenizer: str = engine_named(engine_of(setup)).checkpoints.tokenizer(setup)
    return tokenizer


def exchange_of(setup: Setup) -> WeightExchange:
    """How the checkpoints of a setup are understood."""
    exchange: WeightExchange = engine_named(engine_of(setup)).checkpoints.exchange
    return exchange


def contents_at(place: Location, directory: str, setup: Setup) -> Contents:
    """What a verified checkpoint holds; UnsafeFileError if its engine did not write it."""
    engine = engine_named(engine_of(setup))
    contents: Contents = engine.checkpoints.contents(place, directory, setup)
    return contents
