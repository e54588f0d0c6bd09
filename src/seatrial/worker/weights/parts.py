# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Split one of the engine's tensors into Hugging Face tensors, and join them again."""

from collections.abc import Mapping

import torch

from seatrial.checkpoints.exchange.weight_map import MappedTensor, TensorPart
from seatrial.spec.model import Architecture

_ROWS = (TensorPart.QUERY_ROWS, TensorPart.KEY_ROWS, TensorPart.VALUE_ROWS)
_HEADS = (TensorPart.QUERY, TensorPart.KEY, TensorPart.VALUE)


def cut(slab: torch.Tensor, entry: MappedTensor, model: Architecture) -> torch.Tensor:
    """Return the part of an engine's tensor that an entry describes."""
    found = _part(slab, entry.part, model)
    return found.t() if entry.transposed else found


def _part(slab: torch.Tensor, part: TensorPart, model: Architecture) -> torch.Tensor:
    if part is TensorPart.WHOLE:
        return slab
    if part is TensorPart.VOCABULARY:
        return slab[: model.vocab_size]
    if part in (TensorPart.GATE, TensorPart.UP):
        return slab.chunk(2)[part is TensorPart.UP]
    if part is TensorPart.ALTERNATING:
        return torch.stack(slab.chunk(2), dim=1).flatten(0, 1)
    if part in _ROWS:
        return slab.split(_head_rows(model))[_ROWS.index(part)]
    # Each group contains the queries of its heads, then one key, then one value.
    rest, group = slab.shape[1:], model.heads // model.kv_heads
    groups = slab.reshape(model.kv_heads, group + 2, model.head_dim, *rest)
    parts = dict(zip(_HEADS, groups.split((group, 1, 1), dim=1), strict=True))
    chosen = parts.values() if part is TensorPart.ALL_HEADS else (parts[part],)
    return torch.cat([one.reshape(-1, *rest) for one in chosen])


def _head_rows(model: Architecture) -> tuple[int, int, int]:
    """Return the number of rows of all queries, of all keys and of all values."""
    keys = model.kv_heads * model.head_dim
    return model.heads * model.head_dim, keys, keys


def joined(parts: Mapping[MappedTensor, torch.Tensor], model: Architecture) -> torch.Tensor:
    """Assemble the engine's tensor from all of its parts."""
    found = {
        entry.part: tensor.t() if entry.transposed else tensor for entry, tensor in parts.items()
    }
    first = next(iter(found.values()))
    if TensorPart.GATE in found:
        return torch.cat([found[TensorPart.GATE], found[TensorPart.UP]])
    if TensorPart.ALTERNATING in found:
        return torch.cat([first[::2], first[1::2]])
    if TensorPart.ALL_HEADS not in found and TensorPart.QUERY not in found:
        return first
    heads = [found[part] for part in _HEADS] if TensorPart.QUERY in found else []
    rest = first.shape[1:]
    heads = heads or list(first.split(_head_rows(model)))
    groups = [one.reshape(model.kv_heads, -1, model.head_dim, *rest) for one in heads]
    return torch.cat(groups, dim=1).reshape(-1, *rest)
