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
    data = bytearray()
    while len(data) < size:
        piece = stream.read(size - len(data))
        if not piece:
            raise ShortReadError
        data += piece
    return bytes(data)


def arrays(
    stream: BinaryIO, number: int, stored: DTypeLike, block: int, hasher: Hasher | None = None
) -> Iterator[Numbers]:
    """That many numbers of a stream, in blocks, hashed on the way."""
    width = np.dtype(stored).itemsize
    for begin in range(0, number, block):
        data = read_exactly(stream, min(block, number - begin) * width)
        if hasher is not None:
            hasher.update(data)
        yield np.frombuffer(data, stored)
