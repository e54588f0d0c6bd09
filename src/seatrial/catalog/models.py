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
    """All dimensions of the model."""
    sequence_length: PositiveInt
    """Default sequence length for training."""
    published_parameters: str = ""
    """Number of parameters as the authors state it, such as `175B`."""
    tokenizer: str = ""
    """The model's tokenizer, as written in a spec."""
    tp_size: PositiveInt = 1
    """Tensor-parallel size of the published layout."""
    pp_size: PositiveInt = 1
    """Pipeline-parallel size of the published layout."""
    cp_size: PositiveInt = 1
    """Context-parallel size of the published layout."""
    ep_size: PositiveInt = 1
    """Expert-parallel size of the published layout."""
    global_batch_size: PositiveInt | None = None
    """Global batch size of the published training run in sequences, if stated."""
    learning_rate: PositiveFloat | None = None
    """Peak learning rate of the published training run, if stated."""
    engine: str = DEFAULT_ENGINE
    """The engine that trains the model."""
