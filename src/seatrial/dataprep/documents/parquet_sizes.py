# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How many rows of a Parquet file can be read together, by what they can become in memory.

The sizes in a file are those of its encodings. A value that is in a dictionary once can be in every
row: 3,000 times 300 kB come out of a file of 15 kB. No value is longer than the dictionary, whose
size is in the header of its page, so that bounds what some rows can become.
"""

from collections.abc import Sequence
from typing import Any, BinaryIO

_ROWS = 64
"""Rows that are read together, at most; with 2,048 reading is no faster (measured)."""
_BYTES = 512 << 10
"""Bytes that rows of the usual length should be together."""
_MOST = 32 << 20
"""Bytes that rows may become where the encoding repeats values; some copies are made of them."""
_REPEATING = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_HEADER = 32
"""Bytes that hold the first three fields of a page's header."""
_DICTIONARY_PAGE = 2
_INT32 = 5


def rows_at_once(stream: BinaryIO, group: Any, columns: Sequence[str]) -> int:
    """Rows of a group that may be read together.

    Args:
        stream: The file.
        group: The group's metadata.
        columns: Paths of the columns that are read.
    """
    chunks = [group.column(i) for i in range(group.num_columns)]
    wanted = [chunk for chunk in chunks if chunk.path_in_schema in columns]
    usual = sum(chunk.total_uncompressed_size for chunk in wanted) / max(1, group.num_rows)
    rows = min(_ROWS, int(_BYTES / max(1.0, usual)))
    longest = sum(_longest_repeated(stream, chunk) for chunk in wanted)
    if longest:
        rows = min(rows, _MOST // longest)
    return max(1, rows)


def _longest_repeated(stream: BinaryIO, chunk: Any) -> int:
    """Bytes that no value is longer than which the encoding can repeat; 0 if it repeats none."""
    encodings = set(chunk.encodings)
    # There each value begins as the one before it does.
    longest = int(chunk.total_uncompressed_size) if "DELTA_BYTE_ARRAY" in encodings else 0
    if encodings & _REPEATING:
        # Some writers do not say where the dictionary is; it comes first.
        stream.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
        size = _dictionary_size(stream.read(_HEADER))
        longest = max(longest, int(chunk.total_uncompressed_size) if size is None else size)
    return longest


def _dictionary_size(header: bytes) -> int | None:
    """The uncompressed size that the header of a dictionary's page states, or None if it is none.

    The header is in Thrift's compact protocol: the first field is the kind of the page, the second
    its uncompressed size (parquet.thrift of apache/parquet-format, PageHeader).
    """
    numbers = []
    rest = iter(header)
    for _ in range(2):
        if next(rest, 0) != 1 << 4 | _INT32:
            return None
        value = shift = 0
        for byte in rest:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        # Zigzag: the sign is in the lowest bit.
        numbers.append(value >> 1 ^ -(value & 1))
    kind, size = numbers
    return size if kind == _DICTIONARY_PAGE and size >= 0 else None
