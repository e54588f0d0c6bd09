# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare two checkpoints: `python -m seatrial.worker.checkpointing.compare ONE OTHER`."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from seatrial.worker.checkpointing import safe_load
from seatrial.worker.environment import set_variables


def contents(directory: Path) -> dict[str, Any]:
    """Return every tensor in a checkpoint by name, assembled from its chunks."""
    reader = FileSystemReader(directory)
    state: dict[str, Any] = {}
    for name, entry in reader.read_metadata().state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            state[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
        else:
            state[name] = io.BytesIO()
    checkpoint.load(state, storage_reader=FileSystemReader(directory), no_dist=True)
    return state


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors are bitwise identical, including NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    flat = (part.reshape(-1).contiguous().view(torch.uint8) for part in (one, other))
    return torch.equal(*flat)


def main() -> None:
    """Print the number of tensors, and the names of those that differ."""
    set_variables()
    safe_load.install()
    one, other = (contents(Path(word)) for word in sys.argv[1:3])
    tensors = [name for name, value in one.items() if isinstance(value, torch.Tensor)]
    differing = sorted(set(one) ^ set(other))
    differing += [
        name for name in tensors if name in other and not same_bits(one[name], other[name])
    ]
    sys.stdout.write(json.dumps({"tensors": len(tensors), "differing": differing}) + "\n")


if __name__ == "__main__":
    main()
