# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoint functions of a plan's or a record's engine."""

from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.setup import CheckpointFormat, Setup, Versions
from seatrial.checkpoints.stored_tensors import Contents
from seatrial.planning.plan import Plan
from seatrial.spec.engine import DEFAULT_ENGINE, REGISTERED_ENGINES, engine_named
from seatrial.storage.location import Location
from seatrial.version import VERSION


def setup_of(plan: Plan) -> Setup:
    """Return the setup of the plan's own checkpoints."""
    engine = engine_named(plan.spec.engine.name)
    versions = Versions(VERSION, engine.package, "")
    arguments, ranks = engine.arguments(plan), plan.layout.world_size
    setup: Setup = engine.checkpoints.setup(arguments, versions, ranks)
    return setup


def engine_of(setup: Setup) -> str:
    """Return the name of the engine that wrote the checkpoints of a setup."""
    saved_as = setup.checkpoint_format
    wrote = (one for one in REGISTERED_ENGINES if saved_as in engine_named(one).checkpoints.formats)
    return next(wrote, DEFAULT_ENGINE)


def format_of(setup: Setup) -> CheckpointFormat:
    """Return the format of a setup's checkpoints."""
    found: CheckpointFormat = engine_named(engine_of(setup)).checkpoints.format(setup)
    return found


def tokenizer_of(setup: Setup) -> str:
    """Return the type and name of a setup's tokenizer."""
    tokenizer: str = engine_named(engine_of(setup)).checkpoints.tokenizer(setup)
    return tokenizer


def exchange_of(setup: Setup) -> WeightExchange:
    """Return the weight exchange of a setup's engine."""
    exchange: WeightExchange = engine_named(engine_of(setup)).checkpoints.exchange
    return exchange


def contents_at(place: Location, directory: str, setup: Setup) -> Contents:
    """Read the contents of a verified checkpoint. Raises UnsafeFileError if they are unexpected."""
    engine = engine_named(engine_of(setup))
    contents: Contents = engine.checkpoints.contents(place, directory, setup)
    return contents
