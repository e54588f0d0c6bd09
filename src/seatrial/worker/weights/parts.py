# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Split one of the engine's tensors into Hugging Face tensors, and join them again."""

from collections.abc import Mapping

import torch

from seatrial.checkpoints.exchange.model import HubModel
from seatrial.checkpoints.exchange.weight_map import MappedTensor, TensorPart

_ROWS = (TensorPart.QUERY_ROWS, TensorPart.KEY_ROWS, TensorPart.VALUE_ROWS)


def cut(slab: torch.Tensor, entry: MappedTensor, model: HubModel) -> torch.Tensor:
    """Return the part of an engine's tensor that an entry describes."""
    found = _part(slab, entry.part, model)
    return found.t() if entry.transposed else found


def _part(slab: torch.Tensor, part: TensorPart, model: HubModel) -> torch.Tensor:
    if part is TensorPart.WHOLE:
        return slab
    if part is TensorPart.VOCABULARY:
        return slab[: model.vocab_size]
    if part in (TensorPart.GATE, TensorPart.UP):
        half = slab.shape[0] // 2
        return slab[:half] if part is TensorPart.GATE else slab[half:]
    if part in _ROWS:
        keys = model.kv_heads * model.head_dim
        return slab.split((model.heads * model.head_dim, keys, keys))[_ROWS.index(part)]
    # Each group contains the queries of its heads, then one key, then one value.
    rest = slab.shape[1:]
    groups = slab.reshape(model.kv_heads, model.group + 2, model.head_dim, *rest)
    query, key, value = groups.split((model.group, 1, 1), dim=1)
    chosen = {
        TensorPart.QUERY: (query,),
        TensorPart.KEY: (key,),
        TensorPart.VALUE: (value,),
    }
    parts = chosen.get(part, (query, key, value))
    return torch.cat([one.reshape(-1, *rest) for one in parts])


def joined(parts: Mapping[MappedTensor, torch.Tensor], model: HubModel) -> torch.Tensor:
    """Assemble the engine's tensor from all of its parts."""
    found = {
        entry.part: tensor.t() if entry.transposed else tensor for entry, tensor in parts.items()
    }
    if len(found) == 1 and TensorPart.ALL_HEADS not in found:
        return next(iter(found.values()))
    if TensorPart.GATE in found:
        return torch.cat([found[TensorPart.GATE], found[TensorPart.UP]])
    if TensorPart.ALL_HEADS in found:
        both, rest = found[TensorPart.ALL_HEADS], found[TensorPart.ALL_HEADS].shape[1:]
        kv = model.kv_heads * model.head_dim
        query, key, value = both.split((model.heads * model.head_dim, kv, kv))
    else:
        query, key, value = (
            found[part] for part in (TensorPart.QUERY, TensorPart.KEY, TensorPart.VALUE)
        )
        rest = query.shape[1:]
    groups = [one.reshape(model.kv_heads, -1, model.head_dim, *rest) for one in (query, key, value)]
    return torch.cat(groups, dim=1).reshape(-1, *rest)
