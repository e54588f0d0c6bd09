# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parquet files: one document per row, reading only the needed columns, a few rows at a time."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents.batches import (
    LONGEST_DOMAIN,
    BadLine,
    BadLineReason,
    DocumentBatch,
    LineCount,
    LineLocation,
    excerpt,
)
from seatrial.dataprep.tasks.task_list import SourceSettings
from seatrial.secrets.redaction import redact

_ROWS = 64
"""Most rows that are read together; 2,048 is no faster (measured)."""
_BYTES = 512 << 10
"""Target bytes of the rows that are read together, at their average length."""
_MOST = 32 << 20
"""Most bytes of rows whose encoding repeats values; they are copied several times."""
_REPEATING = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_HEADER = 32
"""Bytes that contain the first three fields of a page header."""
_DICTIONARY_PAGE = 2
_INT32 = 5


def rows_at_once(stream: BinaryIO, group: Any, columns: Sequence[str]) -> int:
    """Return how many rows of a row group can be read together.

    Args:
        stream: The file.
        group: Metadata of the row group.
        columns: Paths of the columns to read.
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
    """Upper bound in bytes of a value that the encoding can repeat; 0 if it repeats none."""
    encodings = set(chunk.encodings)
    # In this encoding a value can share a prefix with the previous one.
    longest = int(chunk.total_uncompressed_size) if "DELTA_BYTE_ARRAY" in encodings else 0
    if encodings & _REPEATING:
        # Some writers omit the offset of the dictionary; it is the first page.
        stream.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
        size = _dictionary_size(stream.read(_HEADER))
        longest = max(longest, int(chunk.total_uncompressed_size) if size is None else size)
    return longest


def _dictionary_size(header: bytes) -> int | None:
    """Return the uncompressed size in a dictionary page header, or None if it is not one.

    The header uses Thrift's compact protocol: the first field is the page type, the second its
    uncompressed size (PageHeader in parquet.thrift of apache/parquet-format).
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


_PAGES = 1 << 20
"""Bytes to read ahead per column, instead of the whole column of a row group."""


def read_parquet(
    stream: BinaryIO, address: str, source: SourceSettings, count: LineCount
) -> Iterator[DocumentBatch]:
    """Yield the documents of a file.

    Raises:
        BadInputError: The file is not Parquet, is damaged, or lacks a column.
    """
    try:
        with pq.ParquetFile(
            pa.PythonFile(stream, mode="r"), buffer_size=_PAGES, pre_buffer=False
        ) as file:
            count.lines += file.metadata.num_rows
            yield from _batches(file, stream, address, source)
    except (pa.ArrowException, OSError) as error:
        # Arrow wraps exceptions of the stream; raise Seatrial's own error unchanged.
        for cause in (error.__cause__, error.__context__):
            if isinstance(cause, BadInputError):
                raise cause from None
        reason = redact(str(error).splitlines()[0])[:200]
        raise _broken(
            address,
            f"cannot be read as Parquet: {reason}",
            "Download or write the file again, then rerun the command; finished tasks are kept.",
        ) from error


def _broken(address: str, rule: str, fix: str, value: str = "") -> BadInputError:
    return BadInputError(InputCode.PARQUET, address, rule, fix, value)


def _batches(
    file: pq.ParquetFile, stream: BinaryIO, address: str, source: SourceSettings
) -> Iterator[DocumentBatch]:
    fields = [field for field in (source.text_field, source.domain_field) if field is not None]
    for field in fields:
        _check(file.schema_arrow, field, address)
    row = 1
    for group in range(file.metadata.num_row_groups):
        rows = rows_at_once(stream, file.metadata.row_group(group), fields)
        for table in file.iter_batches(rows, row_groups=[group], columns=fields, use_threads=False):
            texts = _column(table, source.text_field)
            domains = _column(table, source.domain_field) if source.domain_field else None
            yield _batch(texts, domains, address, row)
            row += table.num_rows


def _check(schema: pa.Schema, path: str, address: str) -> None:
    """Raise an error unless there is a string column at a path."""
    kind: pa.DataType = pa.struct(list(schema))
    names: list[str] = []
    for key in path.split("."):
        at = kind.get_field_index(key) if pa.types.is_struct(kind) else -1
        if at < 0:
            there = [kind.field(i).name for i in range(kind.num_fields)]
            raise _broken(
                address,
                f"there is no column {path}; {'.'.join(names) or 'the file'} has"
                f" {', '.join(there[:20]) or 'none'}.",
                "Set text_field and domain_field of the source to existing columns.",
                path,
            )
        kind = kind.field(at).type
        names.append(key)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(is_kind(kind) for is_kind in strings):
        raise _broken(
            address,
            f"the column {path} contains {kind}, not strings.",
            "Set text_field and domain_field of the source to string columns.",
            str(kind),
        )


def _column(table: pa.RecordBatch, path: str) -> pa.Array:
    """Return the column at a path as large strings, which are not limited to 2 GiB."""
    keys = path.split(".")
    array = reduce(lambda struct, key: pc.struct_field(struct, key), keys[1:], table[keys[0]])
    return array.cast(pa.large_string(), safe=False)


def _batch(texts: pa.Array, domains: pa.Array | None, address: str, first: int) -> DocumentBatch:
    """Return the documents of some rows."""

    def place(number: int) -> LineLocation:
        return LineLocation(address, first + number, 0)

    try:
        texts.validate(full=True)
        if domains is not None:
            domains.validate(full=True)
    except pa.ArrowInvalid:
        return _one_by_one(texts, domains, place)
    if texts.null_count or (domains is not None and not _are_domains(domains)):
        return _one_by_one(texts, domains, place)
    return DocumentBatch(
        texts.to_pylist(), domains.to_pylist() if domains is not None else None, (), place
    )


def _are_domains(domains: pa.Array) -> bool:
    longest = pc.max(pc.utf8_length(domains)).as_py() or 0
    return domains.null_count == 0 and longest <= LONGEST_DOMAIN


def _one_by_one(
    texts: pa.Array, domains: pa.Array | None, place: Callable[[int], LineLocation]
) -> DocumentBatch:
    """Return the documents of rows of which some are bad."""
    found: list[str] = []
    kept = None if domains is None else list[str]()
    numbers: list[int] = []
    bad: list[BadLine] = []
    raw = texts.cast(pa.large_binary(), safe=False)
    raw_domains = domains.cast(pa.large_binary(), safe=False) if domains is not None else None
    for number in range(len(raw)):
        data = raw[number].as_py()
        text = _decoded(data)
        domain = _decoded(raw_domains[number].as_py()) if raw_domains is not None else ""
        if isinstance(text, BadLineReason):
            bad.append(BadLine(place(number), text, excerpt(data or b"")))
        elif isinstance(domain, BadLineReason) or len(domain) > LONGEST_DOMAIN:
            bad.append(BadLine(place(number), BadLineReason.NO_DOMAIN, excerpt(data)))
        else:
            found.append(text)
            numbers.append(number)
            if kept is not None:
                kept.append(domain)
    return DocumentBatch(found, kept, bad, lambda i: place(numbers[i]))


def _decoded(data: bytes | None) -> str | BadLineReason:
    if data is None:
        return BadLineReason.NO_TEXT
    try:
        return data.decode()
    except UnicodeDecodeError:
        return BadLineReason.NOT_UTF8
