# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Prepared files read in blocks, never less than was asked for."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seatrial.dataprep.stores.digests import Hasher

Numbers = NDArray[np.integer[Any]]
"""Whole numbers of any width, as they are stored."""


class ShortReadError(Exception):
    """A file ended before it should have."""


def read_exactly(stream: BinaryIO, size: int) -> bytes:
    """That many bytes; ShortReadError when there are fewer."""
    data = bytearray(size)
    _fill(stream, memoryview(data))
    return bytes(data)


def _fill(stream: BinaryIO, buffer: memoryview) -> None:
    """Read until a buffer is full."""
    size = 0
    while size < len(buffer):
        count = stream.readinto(buffer[size:])  # type: ignore[attr-defined]
        if not count:
            raise ShortReadError
        size += count


def arrays(
    stream: BinaryIO, number: int, stored: DTypeLike, block: int, hasher: Hasher | None = None
) -> Iterator[Numbers]:
    """That many numbers of a stream, hashed on the way, in blocks that are good until the next."""
    held = np.empty(min(block, number), stored)
    for begin in range(0, number, block):
        numbers = held[: number - begin]
        data = numbers.view(np.uint8).data
        _fill(stream, data)
        if hasher is not None:
            hasher.update(data)
        yield numbers
