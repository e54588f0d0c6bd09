# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of a verified checkpoint, one layer at a time: no more than that is ever in memory."""

import io
from collections.abc import Mapping

import torch

from seatrial.checkpoints.place import Place
from seatrial.checkpoints.stored_tensors import Chunk, StoredTensor


class TensorReader:
    """Reads pieces of stacked tensors; the last one is kept, as its parts are asked for in turn."""

    def __init__(self, place: Place, directory: str, tensors: Mapping[str, StoredTensor]) -> None:
        """Read from a checkpoint that was verified."""
        self._place = place
        self._directory = directory
        self._tensors = tensors
        self._last: tuple[tuple[str, tuple[int, ...]], torch.Tensor] | None = None

    def slab(self, name: str, at: tuple[int, ...]) -> torch.Tensor:
        """The part of a tensor at the given places of its first axes."""
        if self._last is not None and self._last[0] == (name, at):
            return self._last[1]
        # Let go of the last before the next is there.
        self._last = None
        found = self._assembled(self._tensors[name], at)
        self._last = ((name, at), found)
        return found

    def _assembled(self, tensor: StoredTensor, at: tuple[int, ...]) -> torch.Tensor:
        ahead, dtype = len(at), getattr(torch, tensor.dtype)
        shape = tensor.shape[ahead:]
        wanted = [chunk for chunk in tensor.chunks if _holds(chunk, at)]
        if len(wanted) == 1 and wanted[0].sizes[ahead:] == shape:
            return self._chunk(wanted[0], at, dtype)
        whole = torch.empty(shape, dtype=dtype)
        filled = 0
        for chunk in wanted:
            begins, sizes = chunk.offsets[ahead:], chunk.sizes[ahead:]
            window = tuple(slice(b, b + s) for b, s in zip(begins, sizes, strict=True))
            whole[window] = self._chunk(chunk, at, dtype)
            filled += whole[window].numel()
        if filled != whole.numel():
            raise ValueError(f"{tensor.name}: {filled:,} of {whole.numel():,} numbers are there")
        return whole

    def _chunk(self, chunk: Chunk, at: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """One piece, loaded as weights and nothing else."""
        with self._place.open(f"{self._directory}/{chunk.item.file}") as stream:
            stream.seek(chunk.item.offset)
            data = stream.read(chunk.item.length)
        if chunk.plain:
            # Of a copy, because torch wants memory that it may write to.
            loaded = torch.frombuffer(bytearray(data), dtype=dtype)
        else:
            loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True).detach()
        loaded = loaded.reshape(chunk.sizes)
        inside = tuple(i - begin for i, begin in zip(at, chunk.offsets, strict=False))
        return loaded[inside]


def _holds(chunk: Chunk, at: tuple[int, ...]) -> bool:
    """Whether a piece has something of the wanted layer and expert."""
    axes = zip(at, chunk.offsets, chunk.sizes, strict=False)
    return all(begin <= i < begin + size for i, begin, size in axes)
