# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Seatrial asks about the checkpoints of an engine.

Apart from `engine.py`, because most commands read no checkpoint and should not import this.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.setup import CheckpointFormat, Setup, Versions
from seatrial.checkpoints.stored_tensors import Contents
from seatrial.storage.location import Location


class EngineCheckpoints(Protocol):
    formats: tuple[str, ...]
    """The formats in which it saves, by the names that records of checkpoints have for them."""
    exchange: WeightExchange
    """How they become Hugging Face weights."""

    def setup(self, arguments: Mapping[str, Any], versions: Versions, world_size: int) -> Setup:
        """What a checkpoint of a run with such arguments depends on."""
        ...

    def format(self, setup: Setup) -> CheckpointFormat:
        """What it can do with the checkpoints of a setup."""
        return CheckpointFormat()

    def tokenizer(self, setup: Setup) -> str:
        """The kind and the name of a setup's tokenizer, the kind by Megatron's name."""
        return setup.tokenizer

    def contents(self, place: Location, directory: str, setup: Setup) -> Contents:
        """What a verified checkpoint holds; UnsafeFileError if the engine did not write it."""
        ...
