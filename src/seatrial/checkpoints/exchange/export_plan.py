# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an export writes, before anything is written: the model, its files, its tensors; pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.model import HubModel
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
from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.stored_tensors import Contents, StoredTensor
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.storage.state_files import read_json

EXPORT_RECORD = "seatrial-export.json"
"""The record of an export, created last: which checkpoint it is of, and a SHA-256 of every file."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What is to be written."""

    model: HubModel
    dtype: str
    """The type of its weights, by torch's name."""
    files: dict[str, list[Tensor]]
    """The tensors of each file, in their order."""
    sources: dict[str, HubTensor]
    """Where each of them comes from, by name."""
    engine_names: dict[str, str]
    """The engine's name of each of them in this checkpoint."""
    padding: int
    """Rows of the embedding that are left out, because no entry of the tokenizer has them."""

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size for tensors in self.files.values() for tensor in tensors)


def plan_export(
    contents: Contents, side: WeightExchange, where: str, largest: int = LARGEST_FILE
) -> ExportPlan:
    """What an export of such a checkpoint writes; FindingsError where it cannot be."""
    stored = contents.tensors
    model = side.model(contents.arguments, where)
    sources = {one.name: one for one in hub_tensors(model, side.entries(model, contents.arguments))}
    shapes = {name: one.shape for name, one in stored.items()}
    refuse_other_tensors(model, sources.values(), shapes, where)
    names = {name: name_in(one, stored) for name, one in sources.items()}
    tensors = [
        Tensor(name, _dtype(stored[names[name]], where), one.shape) for name, one in sources.items()
    ]
    # The embedding comes first in every map.
    embedding = stored[next(iter(names.values()))]
    padding = embedding.shape[0] - model.vocab_size
    files = divided(tensors, largest)
    return ExportPlan(model, embedding.dtype, files, sources, names, padding)


def exported_before(target: Path, record: str) -> dict[str, Any] | None:
    """What an export of the same record has left in a directory; nothing where it is not whole."""
    try:
        told = read_json(target / EXPORT_RECORD)
        whole = told["record"] == record and all((target / name).exists() for name in told["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(told) if whole else None


def refuse_occupied(target: Path) -> None:
    """Refuse a directory in which something is."""
    if target.exists() and not target.is_dir():
        there: Iterable[str] = [target.name]
    else:
        there = sorted(path.name for path in target.iterdir()) if target.is_dir() else []
    for name in there:
        rule = f"something is there already, such as {name}; weights of two models would mix."
        fix = "Name a directory that is empty or not there."
        raise refusal(ExchangeCode.TARGET, str(target), rule, fix, name)


def _dtype(tensor: StoredTensor, where: str) -> str:
    if tensor.dtype not in DTYPES:
        rule = f"{tensor.name} is of the type {tensor.dtype}."
        fix = f"An export can hold {', '.join(DTYPES)}."
        raise refusal(ExchangeCode.TENSORS, where, rule, fix, tensor.dtype)
    return tensor.dtype
