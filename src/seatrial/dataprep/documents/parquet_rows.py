# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parquet files: one document a row, only the columns that are needed, a few rows at a time."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seatrial.dataprep.documents.batches import (
    LONGEST_DOMAIN,
    BadLine,
    Batch,
    LineCount,
    Place,
    Reason,
    excerpt,
)
from seatrial.dataprep.documents.parquet_sizes import rows_at_once
from seatrial.dataprep.inputs.codes import BadInputError, InputCode
from seatrial.dataprep.tasks.task_list import SourceSettings

_PAGES = 1 << 20
"""Bytes that are read ahead of a column, instead of the whole of it in a group of rows."""


def read_parquet(
    stream: BinaryIO, address: str, source: SourceSettings, count: LineCount
) -> Iterator[Batch]:
    """The documents of a file.

    Raises:
        BadInputError: It is no Parquet file, is damaged, or lacks a column.
    """
    try:
        with pq.ParquetFile(
            pa.PythonFile(stream, mode="r"), buffer_size=_PAGES, pre_buffer=False
        ) as file:
            count.lines += file.metadata.num_rows
            yield from _batches(file, stream, address, source)
    except (pa.ArrowException, OSError) as error:
        # Arrow wraps what reading raised, so an error of ours would lose what it says.
        for cause in (error.__cause__, error.__context__):
            if isinstance(cause, BadInputError):
                raise cause from None
        reason = str(error).splitlines()[0][:200]
        raise _broken(
            address,
            f"cannot be read as Parquet: {reason}",
            "Download or write the file again, then start again; finished tasks are kept.",
        ) from error


def _broken(address: str, rule: str, fix: str, value: str = "") -> BadInputError:
    return BadInputError(InputCode.PARQUET, address, rule, fix, value)


def _batches(
    file: pq.ParquetFile, stream: BinaryIO, address: str, source: SourceSettings
) -> Iterator[Batch]:
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
    """See that there is a column of strings at a path."""
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
                "Set text_field and domain_field of the source to columns that there are.",
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
            f"the column {path} holds {kind}, not strings.",
            "Set text_field and domain_field of the source to columns of strings.",
            str(kind),
        )


def _column(table: pa.RecordBatch, path: str) -> pa.Array:
    """The column at a path, as large strings, which have no limit of 2 GiB."""
    keys = path.split(".")
    array = reduce(lambda struct, key: pc.struct_field(struct, key), keys[1:], table[keys[0]])
    return array.cast(pa.large_string(), safe=False)


def _batch(texts: pa.Array, domains: pa.Array | None, address: str, first: int) -> Batch:
    """The documents of some rows."""

    def place(number: int) -> Place:
        return Place(address, first + number, 0)

    try:
        texts.validate(full=True)
        if domains is not None:
            domains.validate(full=True)
    except pa.ArrowInvalid:
        return _one_by_one(texts, domains, place)
    if texts.null_count or (domains is not None and not _are_domains(domains)):
        return _one_by_one(texts, domains, place)
    return Batch(texts.to_pylist(), domains.to_pylist() if domains is not None else None, (), place)


def _are_domains(domains: pa.Array) -> bool:
    longest = pc.max(pc.utf8_length(domains)).as_py() or 0
    return domains.null_count == 0 and longest <= LONGEST_DOMAIN


def _one_by_one(texts: pa.Array, domains: pa.Array | None, place: Callable[[int], Place]) -> Batch:
    """The documents of rows of which some are bad."""
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
        if isinstance(text, Reason):
            bad.append(BadLine(place(number), text, excerpt(data or b"")))
        elif isinstance(domain, Reason) or len(domain) > LONGEST_DOMAIN:
            bad.append(BadLine(place(number), Reason.NO_DOMAIN, excerpt(data)))
        else:
            found.append(text)
            numbers.append(number)
            if kept is not None:
                kept.append(domain)
    return Batch(found, kept, bad, lambda i: place(numbers[i]))


def _decoded(data: bytes | None) -> str | Reason:
    if data is None:
        return Reason.NO_TEXT
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF8
