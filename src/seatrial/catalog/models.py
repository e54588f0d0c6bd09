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
    """All dimensions of the model; those of `config`, if it is set."""
    series: str = ""
    """Name of the series of models, by which tables group presets."""
    config: str = ""
    """The published config.json that the architecture is read from, a name in model-configs."""
    without: tuple[str, ...] = ()
    """Dimensions of the published config.json that the preset leaves out."""
    huggingface: str = ""
    """Name of the model on the Hugging Face Hub."""
    verified: bool = True
    """False if no primary source for the dimensions was found."""
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
    init_std: PositiveFloat | None = None
    """Standard deviation of the initial weights in the published config.json."""
    exact_gelu: bool = False
    """True if GELU is exact in the published model."""
    differences: tuple[str, ...] = ()
    """How the engine's model differs from the published one."""
    quantized: bool = False
    """True if the published weights are quantised, so that they cannot be imported as they are."""
