# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the checks of a prepared file share: reading in blocks, and one finding for each kind."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seatrial.dataprep.dataset_codes import DatasetCode
from seatrial.dataprep.digests import Hasher
from seatrial.findings import Finding, Severity, Where

Numbers = NDArray[np.integer[Any]]
"""Whole numbers of any width, as they are stored."""
FIX = "Restore the file from where it was copied, or prepare the data again."


class ShortReadError(Exception):
    """A file ended before it should have."""


class Report:
    """Findings about one file: the first of each kind with its place, the others as a number."""

    def __init__(self, file: str) -> None:
        """Begin with none."""
        self.file = file
        self._first: dict[DatasetCode, tuple[str, str, str, Severity]] = {}
        self._number: dict[DatasetCode, int] = {}

    def add(
        self,
        code: DatasetCode,
        rule: str,
        value: object = "",
        *,
        number: int = 1,
        fix: str = FIX,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report something that is wrong in that many places, of which this is the first."""
        self._first.setdefault(code, (rule, str(value), fix, severity))
        self._number[code] = self._number.get(code, 0) + number

    def findings(self) -> list[Finding]:
        """What was reported."""
        found = []
        for code, (rule, value, fix, severity) in self._first.items():
            others = self._number[code] - 1
            more = f" There are {others} more such places." if others else ""
            found.append(Finding(code, severity, Where(file=self.file), rule + more, value, fix))
        return found


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
