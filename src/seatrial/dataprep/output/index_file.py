# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's index file (`.idx`), written and read in blocks, never document by document in Python.

All numbers are little-endian. S is the number of sequences, D the number of documents plus one::

    0            9   MMIDIDX and two zero bytes
    9            8   version, 1
    17           1   code of the token type: 8 for uint16, 4 for int32
    18           8   S
    26           8   D
    34           4S  length of each sequence in tokens, int32
    34 + 4S      8S  where each sequence begins in the `.bin`, in bytes, int64
    34 + 12S     8D  for each document its first sequence, int64; the last entry is S

A document of text is one sequence. An empty document has none, as in Megatron's
preprocess_data.py. The format could also hold several sequences a document, and modes of images
at the end of the file; neither is written, and a file with modes is refused for its size.
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
"""Documents that are worked on at a time: their arrays stay in a core's cache, which takes 13 ns a
document where blocks of 2^18 take 22."""

LARGEST_COUNT = 2**31 - 2
"""Most sequences of a file: the engine counts them in 32 bits with a sign, and one beyond."""

_CODE_OF_BYTES = {2: 8, 4: 4}
_BYTES_OF_CODE = {code: size for size, code in _CODE_OF_BYTES.items()}

Lengths = NDArray[np.int32]
Offsets = NDArray[np.int64]
LengthsSource = Callable[[], Iterable[Lengths]]
"""Gives the lengths of all documents from the start, in blocks; called once for each section."""


class IndexSink(Protocol):
    """Where an index is written to: a file, or something that hashes on the way."""

    def write(self, data: memoryview, /) -> object:
        """Take the bytes."""


def token_type(token_bytes: int) -> np.dtype[np.uint16] | np.dtype[np.int32]:
    """The type of the tokens in a `.bin` of that width."""
    return np.dtype("<u2") if token_bytes == 2 else np.dtype("<i4")


def index_error(
    file: str, rule: str, value: str, fix: str, code: DatasetCode = DatasetCode.HEADER
) -> FindingsError:
    """An error about an index file, with its place."""
    return FindingsError([Finding(code, Severity.ERROR, Where(file=file), rule, value, fix)])


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """What an index file begins with, and the places that follow from it."""

    token_bytes: int
    """Bytes of a token in the `.bin`."""
    sequences: int
    """Documents with text."""
    documents: int
    """All documents; on disk the number of entries is written, one more."""

    @property
    def pointers_at(self) -> int:
        """Where the pointers begin."""
        return HEADER_BYTES + 4 * self.sequences

    @property
    def documents_at(self) -> int:
        """Where the document indices begin."""
        return HEADER_BYTES + 12 * self.sequences

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.documents_at + 8 * (self.documents + 1)

    def to_bytes(self) -> bytes:
        """The header as it is stored."""
        code = _CODE_OF_BYTES[self.token_bytes]
        return _HEADER.pack(MAGIC, VERSION, code, self.sequences, self.documents + 1)


def parse_header(data: bytes, file: str) -> IndexHeader:
    """The header of an index, from its first bytes; what is wrong with it is an error."""
    fix = "Prepare the data again, or restore the file from where it was copied."
    if len(data) < HEADER_BYTES:
        rule = f"an index has a header of {HEADER_BYTES} bytes, and there are only {len(data)}."
        raise index_error(file, rule, str(len(data)), fix)
    magic, version, code, sequences, entries = _HEADER.unpack(data[:HEADER_BYTES])
    if magic != MAGIC:
        raise index_error(file, "this is not a Megatron index: it begins otherwise.", "", fix)
    if version != VERSION:
        raise index_error(file, f"version {version} of the format is not known.", str(version), fix)
    if code not in _BYTES_OF_CODE:
        rule = f"the token type has code {code}; ids are of code 8 (uint16) or 4 (int32)."
        raise index_error(file, rule, str(code), fix)
    if not 1 <= entries <= 2**62 or sequences > 2**62:
        rule = f"it claims {sequences} sequences and {entries} document indices, which cannot be."
        raise index_error(file, rule, f"{sequences} {entries}", fix)
    return IndexHeader(_BYTES_OF_CODE[code], sequences, entries - 1)


def write_index(out: IndexSink, header: IndexHeader, lengths: LengthsSource, file: str) -> None:
    """Write an index from the lengths of its documents, 0 for an empty one, in bounded memory.

    The format wants three sections one after the other, so the lengths are gone through three
    times; each time they must add up to what the header says.
    """
    _check_limits(header, file)
    out.write(memoryview(header.to_bytes()))
    for section in (_length_section, _pointer_section, _document_section):
        section(out, header, _checked(lengths(), header, file))


def _check_limits(header: IndexHeader, file: str) -> None:
    if header.documents > LARGEST_COUNT:
        rule = f"{header.documents} documents in one file; the engine can count {LARGEST_COUNT}."
        fix = "Split the source into domains or several sources."
        raise index_error(file, rule, str(header.documents), fix, DatasetCode.LIMIT)


def _checked(blocks: Iterable[Lengths], header: IndexHeader, file: str) -> Iterator[Lengths]:
    """The same blocks; an error when a length is negative or the counts differ from the header."""
    documents = sequences = 0
    for block in blocks:
        if block.size and int(block.min()) < 0:
            rule = "the length of a document is negative: the file of lengths is damaged."
            fix = "Prepare the data again."
            raise index_error(file, rule, str(block.min()), fix, DatasetCode.LENGTHS)
        documents += block.size
        sequences += int(np.count_nonzero(block))
        yield block
    if (documents, sequences) != (header.documents, header.sequences):
        rule = (
            f"{documents} documents, {sequences} of them with text, were given for an index of "
            f"{header.documents} and {header.sequences}."
        )
        fix = "Prepare the data again."
        raise index_error(file, rule, str(documents), fix, DatasetCode.COUNTS)


def _put(out: IndexSink, array: NDArray[np.int32] | NDArray[np.int64], stored: str) -> None:
    """Write an array; a copy is made only where the machine is not little-endian."""
    if array.size:
        out.write(memoryview(array.astype(stored, copy=False)).cast("B"))


def _length_section(out: IndexSink, header: IndexHeader, blocks: Iterator[Lengths]) -> None:
    for block in blocks:
        _put(out, _with_text(block, header), "<i4")


def _pointer_section(out: IndexSink, header: IndexHeader, blocks: Iterator[Lengths]) -> None:
    """Where each sequence begins: the bytes of all before it."""
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
    """For each document the first sequence that is not before it, then the number of all."""
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
    """The lengths of the documents that have a sequence."""
    return block if header.sequences == header.documents else block[block != 0]


@dataclass(frozen=True, slots=True)
class MappedIndex:
    """An index in a local file, mapped into memory: pages are read when they are looked at."""

    header: IndexHeader
    """What the file begins with."""
    lengths: Lengths
    """Tokens of each sequence."""
    pointers: Offsets
    """Where each sequence begins in the `.bin`, in bytes."""
    documents: Offsets
    """For each document its first sequence, and the number of all at the end."""

    def span(self, document: int) -> tuple[int, int]:
        """Where a document begins and ends in the `.bin`, in bytes; both alike when it is empty."""
        first, last = (int(self.documents[document]), int(self.documents[document + 1]))
        if first == last:
            at = int(self.pointers[first]) if first < self.header.sequences else self.end
            return at, at
        end = int(self.pointers[last - 1]) + int(self.lengths[last - 1]) * self.header.token_bytes
        return int(self.pointers[first]), end

    @property
    def end(self) -> int:
        """Bytes of the `.bin` that the index speaks of."""
        if not self.header.sequences:
            return 0
        return int(self.pointers[-1]) + int(self.lengths[-1]) * self.header.token_bytes


def map_index(path: Path) -> MappedIndex:
    """Map a local index file, after its header was held against its size."""
    with path.open("rb") as file:
        header = parse_header(file.read(HEADER_BYTES), str(path))
    size = path.stat().st_size
    if size != header.size:
        rule = f"the file has {size} bytes, and its header makes it {header.size}."
        fix = "Prepare the data again, or restore the file from where it was copied."
        raise index_error(str(path), rule, str(size), fix, DatasetCode.SIZE)
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    return MappedIndex(
        header=header,
        lengths=whole[HEADER_BYTES : header.pointers_at].view("<i4"),
        pointers=whole[header.pointers_at : header.documents_at].view("<i8"),
        documents=whole[header.documents_at :].view("<i8"),
    )
