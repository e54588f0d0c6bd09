# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Models by their published config.json: those that ship with Seatrial, and any other."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from seatrial.catalog.models import ModelPreset
from seatrial.huggingface.config import HubModel, read_config
from seatrial.huggingface.locate import delivered_name, find_config
from seatrial.spec.model import hub_address
from seatrial.storage.state_files import read_json

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
        "quantized": model.quantized,
    }


def unlisted_model(address: str, delivered: Iterable[Path]) -> ModelPreset:
    """Return a model that the catalog does not list, by the address of its config.json."""
    published = find_config(address, delivered)
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
        quantized=model.quantized,
    )


def model_files(address: str, delivered: Iterable[Path]) -> dict[str, str]:
    """Return the config.json of a run's model by the file name that its pods look for."""
    return {delivered_name(address): find_config(address, delivered).data.decode("utf-8")}
