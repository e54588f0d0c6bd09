# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Documents of raw files, in batches, with what could not be used and why.

Memory is bounded: a batch is what a few MiB of a file hold, or one document if that is longer.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from seatrial.dataprep.documents.batches import (
    LONGEST,
    BadLine,
    Batch,
    LineCount,
    Place,
    Reason,
    excerpt,
)
from seatrial.dataprep.documents.decompression import content_of
from seatrial.dataprep.documents.json_lines import read_json_lines
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat, SourceSettings

_PIECE = 1 << 20
"""Bytes of a text file that are read at once."""

type Opener = Callable[[InputFile], BinaryIO]
"""Gives the bytes of an input as stored; seekable."""


def read_documents(
    file: InputFile, source: SourceSettings, opener: Opener, count: LineCount | None = None
) -> Iterator[Batch]:
    """The documents of one file, in order.

    Args:
        file: The file.
        source: How its source is read.
        opener: Opens it.
        count: Counts its lines; complete once all documents are given.

    Raises:
        BadInputError: The file as a whole cannot be read: a compressed stream is cut or damaged, or
            a Parquet file lacks a column.
    """
    count = count or LineCount()
    with opener(file) as stream:
        match file.format:
            case InputFormat.JSONL:
                content = content_of(stream, file.address)
                yield from read_json_lines(content, file.address, source, count)
            case InputFormat.PARQUET:
                # By name, because importing pyarrow takes longer than many a small task.
                rows = importlib.import_module("seatrial.dataprep.documents.parquet_rows")
                yield from rows.read_parquet(stream, file.address, source, count)
            case InputFormat.TEXT:
                count.lines += 1
                yield _read_text(stream, file.address, source)


def _read_text(stream: BinaryIO, address: str, source: SourceSettings) -> Batch:
    """The whole file as one document."""
    content = content_of(stream, address)
    data = bytearray()
    size = 0
    with memoryview(bytearray(_PIECE)) as piece:
        while count := content.readinto(piece):
            size += count
            # What is too long is still read to its end: it may be damaged further on.
            if size <= LONGEST:
                data += piece[:count]
    place = Place(address, 1, 0)
    if size > LONGEST:
        return Batch([], None, [BadLine(place, Reason.TOO_LONG)], lambda _: place)
    if source.domain_field is not None:
        return Batch([], None, [BadLine(place, Reason.NO_DOMAIN)], lambda _: place)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad = BadLine(
            Place(address, 1, error.start),
            Reason.NOT_UTF8,
            excerpt(bytes(data[error.start :][:100])),
        )
        return Batch([], None, [bad], lambda _: place)
    return Batch([text], None, [], lambda _: place)
