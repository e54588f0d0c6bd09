# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write checkpoint shards in Megatron's format, one tensor at a time.

The engine's own writer needs the whole state in memory. The format is torch's: items written by
`torch.save`, concatenated in a file, and metadata with the position of each item (2.13.0,
`torch/distributed/checkpoint/filesystem.py`).
"""

import hashlib
import io
import json
import os
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch.distributed.checkpoint.filesystem import CURRENT_DCP_VERSION, _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.record import ShardFile
from seatrial.engines.megatron.checkpoint_names import FORMAT_FILE
from seatrial.storage.state_files import write_whole

LARGEST_SHARD = 2_000_000_000
"""Size in bytes above which the next item goes into a new file."""


class ShardWriter:
    """Writes the files of one checkpoint, except its record."""

    def __init__(self, directory: Path) -> None:
        """Write to an existing, empty directory."""
        self._directory = directory
        self._metadata = Metadata({}, None, {}, StorageMeta(), CURRENT_DCP_VERSION)
        self._files: list[ShardFile] = []
        self._stream: BinaryIO | None = None
        self._hasher = hashlib.sha256()
        self._size = 0

    def tensor(
        self, name: str, shape: tuple[int, ...], at: tuple[int, ...], slab: torch.Tensor
    ) -> None:
        """Write the part of a tensor at the given indices of its first axes."""
        part = slab.detach().contiguous()
        if part.untyped_storage().nbytes() != part.nbytes:
            # For a view, torch would save the whole underlying storage.
            part = part.clone()
        part = part.reshape((1,) * len(at) + tuple(slab.shape))
        offsets = torch.Size((*at, *(0 for _ in slab.shape)))
        listed = self._metadata.state_dict_metadata.setdefault(
            name, TensorStorageMetadata(TensorProperties(part.dtype), torch.Size(shape), [])
        )
        listed.chunks.append(ChunkStorageMetadata(offsets, part.shape))  # type: ignore[union-attr]
        self._item(MetadataIndex(name, offsets), part)

    def object(self, name: str, value: Any) -> None:
        """Write an object that is not a tensor; the engine stores it in a list of one."""
        self._metadata.state_dict_metadata[name] = BytesStorageMetadata()
        self._item(MetadataIndex(name), [value])

    def finish(self) -> list[ShardFile]:
        """Write the metadata and the format file. Return the shards with their digests."""
        self._close()
        with (self._directory / METADATA).open("xb") as stream:
            pickle.dump(self._metadata, stream)
            stream.flush()
            os.fsync(stream.fileno())
        note = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
        # This also syncs the directory entries of the shards.
        write_whole(self._directory / FORMAT_FILE, json.dumps(note))
        return self._files

    def _item(self, index: MetadataIndex, value: Any) -> None:
        held = io.BytesIO()
        torch.save(value, held)
        data = held.getbuffer()
        if self._stream is not None and self._size + len(data) > LARGEST_SHARD:
            self._close()
        if self._stream is None:
            self._stream = (self._directory / self._name()).open("xb")
        self._metadata.storage_data[index] = _StorageInfo(self._name(), self._size, len(data))
        self._hasher.update(data)
        self._stream.write(data)
        self._size += len(data)

    def _name(self) -> str:
        return f"__0_i1_{len(self._files)}.distcp"

    def _close(self) -> None:
        if self._stream is None:
            return
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        self._files.append(ShardFile(self._name(), self._size, self._hasher.hexdigest()))
        self._stream, self._hasher, self._size = None, hashlib.sha256(), 0
