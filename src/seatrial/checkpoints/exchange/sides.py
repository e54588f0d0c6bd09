# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an export asks about the checkpoints of an engine, by engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.checkpoints.composer_contents import sharded_contents, whole_contents
from seatrial.checkpoints.exchange import engine_side, foundry_side
from seatrial.checkpoints.exchange.key_map import Entry, entries
from seatrial.checkpoints.exchange.model import HubModel
from seatrial.checkpoints.place import Place
from seatrial.checkpoints.setup import ModelShape, Setup
from seatrial.checkpoints.stored_tensors import Contents, contents_of
from seatrial.spec.engine import EngineName

Values = Mapping[str, Any]
"""What an engine was told, by its own names."""


@dataclass(frozen=True, slots=True)
class Side:
    """How an engine's checkpoints are understood."""

    model: Callable[[Values, str], HubModel]
    """The model of what was saved beside the tensors; FindingsError where no class has its parts.
    """
    entries: Callable[[HubModel, Values], tuple[Entry, ...]]
    """Every tensor of it."""
    refuse_plan: Callable[[Values], None]
    """Refuses what the engine is told for a plan, where no class has the model's parts."""
    refuse_shape: Callable[[ModelShape, str], None]
    """The same by a record alone."""


SIDES: Mapping[EngineName, Side] = {
    EngineName.MEGATRON: Side(
        engine_side.model_of_arguments,
        lambda model, _: entries(model),
        engine_side.refuse_plan,
        engine_side.refuse_shape,
    ),
    EngineName.LLM_FOUNDRY: Side(
        foundry_side.model_of_saved,
        foundry_side.entries_of_saved,
        foundry_side.refuse_plan,
        foundry_side.refuse_shape,
    ),
}


def engine_of(setup: Setup) -> EngineName:
    """The engine that wrote the checkpoints of a setup."""
    return EngineName.LLM_FOUNDRY if setup.by_composer else EngineName.MEGATRON


def side_of(setup: Setup) -> Side:
    """How the checkpoints of a setup are understood."""
    return SIDES[engine_of(setup)]


def contents_at(place: Place, directory: str, setup: Setup) -> Contents:
    """What a verified checkpoint holds; PickleError where it is not what its engine writes."""
    if not setup.by_composer:
        return contents_of(place, directory)
    return (sharded_contents if setup.in_shards else whole_contents)(place, directory)
