# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's index file (`.idx`), written and read in blocks instead of single documents.

All numbers are little-endian. S is the number of sequences, D the number of documents plus one::

    0            9   MMIDIDX and two zero bytes
    9            8   version, 1
    17           1   code of the token type: 8 for uint16, 4 for int32
    18           8   S
    26           8   D
    34           4S  length of each sequence in tokens, int32
    34 + 4S      8S  offset of each sequence in the `.bin` in bytes, int64
    34 + 12S     8D  first sequence of each document, int64; the last entry is S

A text document is one sequence. An empty document has none, as in Megatron's preprocess_data.py.
The format also supports several sequences per document, and image modes at the end of the file.
Seatrial writes neither, and rejects a file with modes because of its size.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seatrial.codes.datasets import DatasetCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where

MAGIC = b"MMIDIDX\0\0"
VERSION = 1
HEADER_BYTES = 34
_HEADER = struct.Struct("<9sQBQQ")

BLOCK = 1 << 15
"""Documents per block: their arrays fit a core's cache, which takes 13 ns per document; blocks of
2^18 take 22 ns."""

LARGEST_COUNT = 2**31 - 2
"""Most sequences of a file: the engine counts them, plus one, in a signed 32-bit integer."""

_CODE_OF_BYTES = {2: 8, 4: 4}
_BYTES_OF_CODE = {code: size for size, code in _CODE_OF_BYTES.items()}

Lengths = NDArray[np.int32]
Offsets = NDArray[np.int64]
LengthsSource = Callable[[], Iterable[Lengths]]
"""Returns the lengths of all documents from the start, in blocks; called once per section."""


class IndexSink(Protocol):
    """The target of an index: a file, or a wrapper that hashes the bytes."""

    def write(self, data: memoryview, /) -> object:
        """Write the bytes."""


def token_type(token_bytes: int) -> np.dtype[np.uint16] | np.dtype[np.int32]:
    """Return the type of the tokens in a `.bin` of that width."""
    return np.dtype("<u2") if token_bytes == 2 else np.dtype("<i4")


def index_error(
    file: str, rule: str, value: str, fix: str, code: DatasetCode = DatasetCode.HEADER
) -> FindingsError:
    """Return an error about an index file."""
    return FindingsError([Finding(code, Severity.ERROR, Where(file=file), rule, value, fix)])


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The header of an index file, and the offsets that follow from it."""

    token_bytes: int
    """Bytes per token in the `.bin`."""
    sequences: int
    """Documents with text."""
    documents: int
    """All documents; the file stores the number of entries, which is one more."""

    @property
    def pointers_at(self) -> int:
        """Offset of the pointers."""
        return HEADER_BYTES + 4 * self.sequences

    @property
    def documents_at(self) -> int:
        """Offset of the document indices."""
        return HEADER_BYTES + 12 * self.sequences

    @property
    def size(self) -> int:
        """Size of the whole file in bytes."""
        return self.documents_at + 8 * (self.documents + 1)

    def to_bytes(self) -> bytes:
        """Return the header as it is stored."""
        code = _CODE_OF_BYTES[self.token_bytes]
        return _HEADER.pack(MAGIC, VERSION, code, self.sequences, self.documents + 1)


def parse_header(data: bytes, file: str) -> IndexHeader:
    """Parse the header from the first bytes of an index; raise FindingsError if it is invalid."""
    fix = "Prepare the data again, or restore the file from the original."
    if len(data) < HEADER_BYTES:
        rule = f"the header of an index has {HEADER_BYTES} bytes; the file has only {len(data)}."
        raise index_error(file, rule, str(len(data)), fix)
    magic, version, code, sequences, entries = _HEADER.unpack(data[:HEADER_BYTES])
    if magic != MAGIC:
        raise index_error(file, "this is not a Megatron index: the magic bytes differ.", "", fix)
    if version != VERSION:
        raise index_error(file, f"format version {version} is not supported.", str(version), fix)
    if code not in _BYTES_OF_CODE:
        rule = f"the token type has code {code}; supported are 8 (uint16) and 4 (int32)."
        raise index_error(file, rule, str(code), fix)
    if not 1 <= entries <= 2**62 or sequences > 2**62:
        rule = f"it states {sequences} sequences and {entries} document indices: impossible counts."
        raise index_error(file, rule, f"{sequences} {entries}", fix)
    return IndexHeader(_BYTES_OF_CODE[code], sequences, entries - 1)


def write_index(out: IndexSink, header: IndexHeader, lengths: LengthsSource, file: str) -> None:
    """Write an index from the document lengths, 0 for an empty one, in bounded memory.

    The format has three consecutive sections, so this reads the lengths three times. Each time
    they must match the counts in the header.
    """
    _check_limits(header, file)
    out.write(memoryview(header.to_bytes()))
    for section in (_length_section, _pointer_section, _document_section):
        section(out, header, _checked(lengths(), header, file))


def _check_limits(header: IndexHeader, file: str) -> None:
    if header.documents > LARGEST_COUNT:
        rule = f"the file has {header.documents} documents; the engine supports {LARGEST_COUNT}."
        fix = "Split the source into domains or several sources."
        raise index_error(file, rule, str(header.documents), fix, DatasetCode.LIMIT)


def _checked(blocks: Iterable[Lengths], header: IndexHeader, file: str) -> Iterator[Lengths]:
    """Pass on the blocks; raise an error for negative lengths or counts that differ."""
    documents = sequences = 0
    for block in blocks:
        if block.size and int(block.min()) < 0:
            rule = "the length of a document is negative: the length file is damaged."
            fix = "Prepare the data again."
            raise index_error(file, rule, str(block.min()), fix, DatasetCode.LENGTHS)
        documents += block.size
        sequences += int(np.count_nonzero(block))
        yield block
    if (documents, sequences) != (header.documents, header.sequences):
        rule = (
            f"the lengths have {documents} documents, {sequences} of them with text; the index "
            f"expects {header.documents} and {header.sequences}."
        )
        fix = "Prepare the data again."
        raise index_error(file, rule, str(documents), fix, DatasetCode.COUNTS)


def _put(out: IndexSink, array: NDArray[np.int32] | NDArray[np.int64], stored: str) -> None:
    """Write an array; copies it only on big-endian machines."""
    if array.size:
        out.write(memoryview(array.astype(stored, copy=False)).cast("B"))


def _length_section(out: IndexSink, header: IndexHeader, blocks: Iterator[Lengths]) -> None:
    for block in blocks:
        _put(out, _with_text(block, header), "<i4")


def _pointer_section(out: IndexSink, header: IndexHeader, blocks: Iterator[Lengths]) -> None:
    """Write the offset of each sequence: the bytes of all before it."""
    begin = 0
    for block in blocks:
        kept = _with_text(block, header)
        ends = np.cumsum(kept, dtype=np.int64)
        ends *= header.token_bytes
        ends += begin
        if ends.size:
            starts = np.empty_like(ends)
            starts[0] = begin
            starts[1:] = ends[:-1]
            begin = int(ends[-1])
            _put(out, starts, "<i8")


def _document_section(out: IndexSink, header: IndexHeader, blocks: Iterator[Lengths]) -> None:
    """Write the first sequence at or after each document, then the number of sequences."""
    _put(out, np.zeros(1, np.int64), "<i8")
    before = 0
    for block in blocks:
        if header.sequences == header.documents:
            after = np.arange(before + 1, before + block.size + 1, dtype=np.int64)
        else:
            after = np.cumsum(block != 0, dtype=np.int64)
            after += before
        if after.size:
            before = int(after[-1])
            _put(out, after, "<i8")


def _with_text(block: Lengths, header: IndexHeader) -> Lengths:
    """Return the lengths of the documents with a sequence."""
    return block if header.sequences == header.documents else block[block != 0]


@dataclass(frozen=True, slots=True)
class MappedIndex:
    """An index in a local file, mapped into memory; pages are read on access."""

    header: IndexHeader
    """Header of the file."""
    lengths: Lengths
    """Tokens per sequence."""
    pointers: Offsets
    """Offset of each sequence in the `.bin` in bytes."""
    documents: Offsets
    """First sequence of each document, then the number of sequences."""

    def span(self, document: int) -> tuple[int, int]:
        """Return the start and end of a document in the `.bin` in bytes; equal if it is empty."""
        first, last = (int(self.documents[document]), int(self.documents[document + 1]))
        if first == last:
            at = int(self.pointers[first]) if first < self.header.sequences else self.end
            return at, at
        end = int(self.pointers[last - 1]) + int(self.lengths[last - 1]) * self.header.token_bytes
        return int(self.pointers[first]), end

    @property
    def end(self) -> int:
        """Bytes of the `.bin` that the index covers."""
        if not self.header.sequences:
            return 0
        return int(self.pointers[-1]) + int(self.lengths[-1]) * self.header.token_bytes


def map_index(path: Path) -> MappedIndex:
    """Map a local index file after comparing its header with its size."""
    with path.open("rb") as file:
        header = parse_header(file.read(HEADER_BYTES), str(path))
    size = path.stat().st_size
    if size != header.size:
        rule = f"the file has {size} bytes; according to its header it needs {header.size}."
        fix = "Prepare the data again, or restore the file from the original."
        raise index_error(str(path), rule, str(size), fix, DatasetCode.SIZE)
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    return MappedIndex(
        header=header,
        lengths=whole[HEADER_BYTES : header.pointers_at].view("<i4"),
        pointers=whole[header.pointers_at : header.documents_at].view("<i8"),
        documents=whole[header.documents_at :].view("<i8"),
    )
