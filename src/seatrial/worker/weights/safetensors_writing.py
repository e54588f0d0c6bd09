# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Writing weights as safetensors, one tensor after the other, hashed on their way."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import torch

from seatrial.checkpoints.exchange.safetensors_file import Tensor, header


class WeightsFile:
    """One file: its header first, then its tensors in the order that the header says."""

    def __init__(self, path: Path, tensors: list[Tensor]) -> None:
        """Begin a file that is not there yet."""
        self._hasher = hashlib.sha256()
        self._waiting = list(reversed(tensors))
        self._stream = path.open("xb")
        self._put(header(tensors))

    def write(self, tensor: torch.Tensor) -> int:
        """Write the next tensor; returns its bytes."""
        told = self._waiting.pop()
        if tuple(tensor.shape) != told.shape or str(tensor.dtype) != f"torch.{told.dtype}":
            raise ValueError(f"{told.name}: {tuple(tensor.shape)} {tensor.dtype}, not {told}")
        # As plain bytes: numpy has no bfloat16. Reshaped, because a single number has no last axis.
        flat = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
        self._put(memoryview(flat))
        return told.size

    def _put(self, data: bytes | memoryview) -> None:
        self._hasher.update(data)
        self._stream.write(data)

    @property
    def sha256(self) -> str:
        """The digest of what was written."""
        return self._hasher.hexdigest()

    def __enter__(self) -> "WeightsFile":
        """The file itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Have it on the disk; a file that was not written to its end is an error."""
        if kind is None:
            self._stream.flush()
            os.fsync(self._stream.fileno())
        self._stream.close()
        if kind is None and self._waiting:
            raise ValueError(f"{len(self._waiting)} tensors were not written")


Tell = Callable[[int], None]
"""Told how many bytes are done."""
