# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Model presets: an architecture, and how its authors trained it."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import PositiveFloat, PositiveInt

from seatrial.catalog.entry import Entry
from seatrial.huggingface.config import HubModel, read_config
from seatrial.huggingface.locate import PublishedConfig
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.spec.model import Architecture, hub_address
from seatrial.storage.state_files import read_json


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


CONFIGS = Path(__file__).parent / "data" / "model-configs"
"""The published configurations that ship with Seatrial, with where each was read."""


def published_model(name: str) -> HubModel:
    """Return the model of a published configuration; raise OSError if there is no such file."""
    file = CONFIGS / f"{name}.json"
    return read_config(read_json(file)["config"], file.name)


def published_facts(name: str, without: Collection[str]) -> dict[str, Any]:
    """Return the facts of a preset that its published configuration has."""
    model = published_model(name)
    return {
        "architecture": model.architecture.model_dump(mode="json", exclude=set(without)),
        "init_std": model.init_std,
        "exact_gelu": model.exact_gelu,
        "differences": list(model.differences),
    }


def unlisted_preset(address: str, published: PublishedConfig) -> ModelPreset:
    """Return a model that the catalog does not list, by its config.json."""
    model = read_config(published.config, published.where)
    shape, scaling = model.architecture, model.architecture.rope_scaling
    # A longer context is usually added after pretraining.
    length = shape.max_positions if scaling is None else scaling.original_positions
    name, commit = hub_address(address)
    return ModelPreset(
        title=name,
        source=f"{address} sha256:{published.sha256}",
        architecture=shape,
        sequence_length=min(length, shape.max_positions),
        tokenizer=f"hf://{address}" if commit else "",
        huggingface=name if commit else "",
        init_std=model.init_std,
        exact_gelu=model.exact_gelu,
        differences=model.differences,
    )
