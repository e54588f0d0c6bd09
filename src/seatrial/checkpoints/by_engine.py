# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoint functions of a plan's or a record's engine."""

from typing import Any

from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.naming import CheckpointNaming
from seatrial.checkpoints.setup import CheckpointFormat, Setup, Versions
from seatrial.checkpoints.stored_tensors import Contents
from seatrial.errors import SeatrialError
from seatrial.planning.plan import Plan
from seatrial.spec.engine import REGISTERED_ENGINES, engine_named
from seatrial.storage.location import Location
from seatrial.version import VERSION


class UnsupportedCheckpointError(SeatrialError):
    """A checkpoint of an engine or in a format that this version of Seatrial does not support."""

    def __init__(self, rule: str, fix: str) -> None:
        self.rule, self.fix = rule, fix
        super().__init__(f"{rule} {fix}")


def setup_of(plan: Plan) -> Setup:
    """Return the setup of the plan's own checkpoints."""
    engine = engine_named(plan.spec.engine.name)
    versions = Versions(VERSION, engine.package, "")
    arguments, ranks = engine.arguments(plan), plan.layout.world_size
    setup: Setup = engine.checkpoints.setup(arguments, versions, ranks)
    return setup


def engine_of(setup: Setup) -> str:
    """Return the name of the engine that wrote the checkpoints of a setup, from its package.

    Raises UnsupportedCheckpointError if no registered engine writes such checkpoints.
    """
    written_by, saved_as = str(setup.versions.engine), setup.checkpoint_format
    for name in REGISTERED_ENGINES:
        engine = engine_named(name)
        if _package(engine.package) != _package(written_by):
            continue
        if saved_as in engine.checkpoints.formats:
            return name
        known = ", ".join(engine.checkpoints.formats)
        rule = f"{engine.title} has no checkpoint format {saved_as!r}."
        raise UnsupportedCheckpointError(rule, f"Use a checkpoint in one of its formats: {known}.")
    rule = f"it was written by {written_by!r}, which is not an engine of Seatrial {VERSION}."
    fix = f"Use Seatrial {setup.versions.seatrial}, which wrote it, or a different checkpoint."
    raise UnsupportedCheckpointError(rule, fix)


def _package(name_and_version: str) -> str:
    return name_and_version.partition(" ")[0]


def _checkpoints_of(setup: Setup) -> Any:
    return engine_named(engine_of(setup)).checkpoints


def naming_of(setup: Setup) -> CheckpointNaming:
    """Return the names that a setup's engine uses in its checkpoints."""
    naming: CheckpointNaming = engine_named(engine_of(setup)).checkpoint_naming
    return naming


def format_of(setup: Setup) -> CheckpointFormat:
    """Return the format of a setup's checkpoints."""
    found: CheckpointFormat = _checkpoints_of(setup).format(setup)
    return found


def format_file_problem(setup: Setup, content: bytes) -> str:
    """Return what is wrong with the content of the engine's format file; empty if it is valid."""
    problem: str = _checkpoints_of(setup).format_file_problem(content)
    return problem


def tokenizer_of(setup: Setup) -> str:
    """Return the type and name of a setup's tokenizer."""
    tokenizer: str = _checkpoints_of(setup).tokenizer(setup)
    return tokenizer


def exchange_of(setup: Setup) -> WeightExchange:
    """Return the weight exchange of a setup's engine."""
    exchange: WeightExchange = _checkpoints_of(setup).exchange
    return exchange


def contents_at(place: Location, directory: str, setup: Setup) -> Contents:
    """Read the contents of a verified checkpoint. Raises UnsafeFileError if they are unexpected."""
    contents: Contents = _checkpoints_of(setup).contents(place, directory, setup)
    return contents
