# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Model presets: an architecture, and how its authors trained it."""

from pydantic import PositiveFloat, PositiveInt

from seatrial.catalog.entry import Entry
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.spec.model import Architecture


class ModelPreset(Entry):
    """One published model."""

    architecture: Architecture
    """Every dimension of the model."""
    sequence_length: PositiveInt
    """Sequence length that it is trained at unless the spec says otherwise."""
    published_parameters: str = ""
    """The size as its authors state it, such as `175B`."""
    tokenizer: str = ""
    """The tokenizer it was made for, as a spec would name it."""
    tp_size: PositiveInt = 1
    """Tensor-parallel size of its published layout."""
    pp_size: PositiveInt = 1
    """Pipeline-parallel size of its published layout."""
    cp_size: PositiveInt = 1
    """Context-parallel size of its published layout."""
    ep_size: PositiveInt = 1
    """Expert-parallel size of its published layout."""
    global_batch_size: PositiveInt | None = None
    """Sequences per step of its published training, where stated."""
    learning_rate: PositiveFloat | None = None
    """Peak learning rate of its published training, where stated."""
    engine: str = DEFAULT_ENGINE
    """The engine that trains it."""
