# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plan an export: the model, its files and its tensors. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.safetensors_file import (
    DTYPES,
    LARGEST_FILE,
    Tensor,
    divided,
)
from seatrial.checkpoints.exchange.shapes import (
    HubTensor,
    hub_tensors,
    name_in,
    refuse_other_tensors,
)
from seatrial.checkpoints.exchange.weight_map import Values, WeightExchange
from seatrial.checkpoints.stored_tensors import Contents, StoredTensor
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.huggingface.config import HubModel
from seatrial.storage.state_files import read_json

EXPORT_RECORD = "seatrial-export.json"
"""The record of an export, written last: the checkpoint, and a SHA-256 of every file."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The output of an export."""

    model: HubModel
    dtype: str
    """torch's name for the data type of the weights."""
    files: dict[str, list[Tensor]]
    """The tensors of each file, in order."""
    sources: dict[str, HubTensor]
    """The source of each tensor, by name."""
    engine_names: dict[str, str]
    """The engine's name for each tensor in this checkpoint."""
    config: Callable[[str, Values], dict[str, Any]]
    """Returns the config.json, from the data type and the special tokens."""
    padding: int
    """Padding rows in the embedding, which the export omits."""

    @property
    def size(self) -> int:
        """The total size of the tensors in bytes."""
        return sum(tensor.size for tensors in self.files.values() for tensor in tensors)


def plan_export(
    contents: Contents, side: WeightExchange, where: str, largest: int = LARGEST_FILE
) -> ExportPlan:
    """Plan the export of a checkpoint. Raises FindingsError if it cannot be exported."""
    stored = contents.tensors
    model = side.model(contents.arguments, where)
    entries = side.entries(model, contents.arguments)
    sources = {one.name: one for one in hub_tensors(model.architecture, entries)}
    shapes = {name: one.shape for name, one in stored.items()}
    refuse_other_tensors(model, sources.values(), shapes, where)
    names = {name: name_in(one, stored) for name, one in sources.items()}
    tensors = [
        Tensor(name, _dtype(stored[names[name]], where), one.shape) for name, one in sources.items()
    ]
    # The embedding comes first in every weight map.
    embedding = stored[next(iter(names.values()))]
    padding = embedding.shape[0] - model.architecture.vocab_size
    files = divided(tensors, largest)
    config = partial(side.config, model, contents.arguments)
    return ExportPlan(model, embedding.dtype, files, sources, names, config, padding)


def exported_before(target: Path, record: str) -> dict[str, Any] | None:
    """Return the record of a complete export of this checkpoint; None if there is none."""
    try:
        told = read_json(target / EXPORT_RECORD)
        whole = told["record"] == record and all((target / name).exists() for name in told["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(told) if whole else None


def refuse_occupied(target: Path) -> None:
    """Reject a target that exists and is not an empty directory."""
    if target.exists() and not target.is_dir():
        there: Iterable[str] = [target.name]
    else:
        there = sorted(path.name for path in target.iterdir()) if target.is_dir() else []
    for name in there:
        rule = f"the directory is not empty (it contains {name}); two models would be mixed."
        fix = "Use an empty or new directory."
        raise refusal(ExchangeCode.TARGET, str(target), rule, fix, name)


def _dtype(tensor: StoredTensor, where: str) -> str:
    if tensor.dtype not in DTYPES:
        rule = f"export does not support the data type {tensor.dtype} of {tensor.name}."
        fix = f"Use a checkpoint with one of these data types: {', '.join(DTYPES)}."
        raise refusal(ExchangeCode.TENSORS, where, rule, fix, tensor.dtype)
    return tensor.dtype
