# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The index of a prepared file in any store; entries are read on demand."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seatrial.dataprep.output.dataset import DataFile
from seatrial.dataprep.output.index_file import HEADER_BYTES, parse_header
from seatrial.storage.digests import Hasher
from seatrial.storage.store import Store

_BLOCK = 8192
"""Entries per read."""
_FIELDS = (
    (0, 9, "magic: a Megatron index"),
    (9, 17, "version of the format"),
    (17, 18, "token type: 8 is uint16, 4 is int32"),
    (18, 26, "number of sequences (documents with text)"),
    (26, 34, "entries of the document index (documents plus one)"),
)


class _Entries(Sequence[int]):
    """A section of the file as a sequence of numbers."""

    def __init__(self, store: Store, path: str, start: int, kind: str, count: int) -> None:
        self._store, self._path, self._start, self._count = store, path, start, count
        self._kind = np.dtype(kind)
        self._block = -1
        self._held: np.ndarray[tuple[int], np.dtype[np.int64]] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        block, within = divmod(place, _BLOCK)
        if block != self._block:
            first = block * _BLOCK
            size = min(_BLOCK, self._count - first) * self._kind.itemsize
            start = self._start + first * self._kind.itemsize
            with self._store.open_reader(self._path, start) as stream:
                self._held = np.frombuffer(stream.read(size), self._kind).astype(np.int64)
            self._block = block
        return int(self._held[within])


class StoredIndex:
    def __init__(self, store: Store, file: DataFile) -> None:
        """Read the header; raise FindingsError if it is invalid."""
        path = file.index_file
        with store.open_reader(path) as stream:
            self._raw = stream.read(HEADER_BYTES)
        self.header = parse_header(self._raw, f"{store.address}/{path}")
        header = self.header
        self.lengths = _Entries(store, path, HEADER_BYTES, "<i4", header.sequences)
        self.pointers = _Entries(store, path, header.pointers_at, "<i8", header.sequences)
        self.documents = _Entries(store, path, header.documents_at, "<i8", header.documents + 1)

    def span(self, document: int) -> tuple[int, int]:
        """Return the start and end of a document in the `.bin` in bytes; equal if it is empty."""
        first, after = self.documents[document], self.documents[document + 1]
        if first == after:
            at = self.pointers[first] if first < len(self.pointers) else self._end(first - 1)
            return at, at
        return self.pointers[first], self._end(after - 1)

    def _end(self, sequence: int) -> int:
        """Return the end of a sequence in bytes."""
        if sequence < 0:
            return 0
        return self.pointers[sequence] + self.lengths[sequence] * self.header.token_bytes

    def document_at(self, byte: int) -> int:
        """Return the document that contains a byte of the `.bin`."""
        sequence = bisect_right(self.pointers, byte) - 1
        # Of several documents with the same first sequence, only the last has text.
        return bisect_right(self.documents, sequence, hi=self.header.documents) - 1

    def explain(self, start: int, end: int) -> Iterator[tuple[int, int, str, str]]:
        """Yield start, end, value and meaning of every field or entry that overlaps a range."""
        for at, stop, meaning in _FIELDS:
            if at < end and stop > start:
                raw = self._raw[at:stop]
                value = repr(raw) if at == 0 else f"{int.from_bytes(raw, 'little'):,}"
                yield at, stop, value, meaning
        sections = (
            (HEADER_BYTES, 4, self.lengths, "length of sequence {}, in tokens"),
            (self.header.pointers_at, 8, self.pointers, "offset of sequence {}, in bytes"),
            (self.header.documents_at, 8, self.documents, "first sequence of document {}"),
        )
        for base, width, entries, meaning in sections:
            first = max(0, (start - base) // width)
            last = min(len(entries), -(-(end - base) // width))
            for i in range(first, last):
                at = base + i * width
                words = meaning.format(f"{i:,}")
                if entries is self.documents and i == self.header.documents:
                    words = "number of sequences (end of the document index)"
                yield at, at + width, f"{entries[i]:,}", words


Numbers = NDArray[np.integer[Any]]
"""Integers of any width, as stored."""


class ShortReadError(Exception):
    """A file ends too early."""


def read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Read exactly that many bytes; raise ShortReadError if there are fewer."""
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
    """Yield numbers of a stream in blocks, hashing them; each block is valid until the next."""
    held = np.empty(min(block, number), stored)
    for begin in range(0, number, block):
        numbers = held[: number - begin]
        data = numbers.view(np.uint8).data
        _fill(stream, data)
        if hasher is not None:
            hasher.update(data)
        yield numbers
