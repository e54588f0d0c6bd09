# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The interface for an engine's checkpoints.

Separate from `engine.py`, because most commands read no checkpoints and should not import this
module.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.setup import CheckpointFormat, Setup, Versions
from seatrial.checkpoints.stored_tensors import Contents
from seatrial.storage.location import Location


class EngineCheckpoints(Protocol):
    formats: tuple[str, ...]
    """The formats in which the engine saves, under the names in checkpoint records."""
    exchange: WeightExchange
    """How to convert its checkpoints to Hugging Face weights."""

    def setup(self, arguments: Mapping[str, Any], versions: Versions, world_size: int) -> Setup:
        """Return the configuration that a checkpoint of a run with these arguments depends on."""
        ...

    def format(self, setup: Setup) -> CheckpointFormat:
        """Return the format of a setup's checkpoints."""
        return CheckpointFormat()

    def format_file_problem(self, content: bytes) -> str:
        """Return what is wrong with the content of its format file; empty if it is valid."""
        return ""

    def tokenizer(self, setup: Setup) -> str:
        """Return the type (under Megatron's name) and the name of a setup's tokenizer."""
        return setup.tokenizer

    def contents(self, place: Location, directory: str, setup: Setup) -> Contents:
        """Read a verified checkpoint. Raises UnsafeFileError if its contents are unexpected."""
        ...
