# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Documents of raw files, in batches, with what could not be used and why.

Memory is bounded: a batch is what a few MiB of a file hold, or one document if that is longer.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from seatrial.dataprep.documents.batches import (
    LONGEST,
    BadLine,
    BadLineReason,
    DocumentBatch,
    LineCount,
    LineLocation,
    excerpt,
)
from seatrial.dataprep.documents.decompression import content_of
from seatrial.dataprep.documents.json_lines import read_json_lines
from seatrial.dataprep.inputs.access import open_input
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat, SourceSettings, TaskList
from seatrial.errors import SeatrialError

_PIECE = 1 << 20
"""Bytes of a text file that are read at once."""

type Opener = Callable[[InputFile], BinaryIO]
"""Gives the bytes of an input as stored; seekable."""


def read_documents(
    file: InputFile, source: SourceSettings, opener: Opener, count: LineCount | None = None
) -> Iterator[DocumentBatch]:
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
                rows = importlib.import_module("seatrial.dataprep.documents.parquet")
                yield from rows.read_parquet(stream, file.address, source, count)
            case InputFormat.TEXT:
                count.lines += 1
                yield _read_text(stream, file.address, source)


def _read_text(stream: BinaryIO, address: str, source: SourceSettings) -> DocumentBatch:
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
    place = LineLocation(address, 1, 0)
    if size > LONGEST:
        return DocumentBatch([], None, [BadLine(place, BadLineReason.TOO_LONG)], lambda _: place)
    if source.domain_field is not None:
        return DocumentBatch([], None, [BadLine(place, BadLineReason.NO_DOMAIN)], lambda _: place)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad = BadLine(
            LineLocation(address, 1, error.start),
            BadLineReason.NOT_UTF8,
            excerpt(bytes(data[error.start :][:100])),
        )
        return DocumentBatch([], None, [bad], lambda _: place)
    return DocumentBatch([text], None, [], lambda _: place)


_FILES = 4
"""Files that texts are taken from."""
_LONGEST = 1 << 15
"""Characters of a text that are taken: enough to tell tokenizers apart."""


def spread[T](items: Sequence[T], count: int) -> list[T]:
    """So many of the items, evenly spread, the first among them."""
    taken = min(count, len(items))
    return [items[i * len(items) // taken] for i in range(taken)]


def inputs_of(tasks: TaskList, source: str | None = None) -> list[InputFile]:
    """All inputs, or those of a source, in order."""
    return [file for task in tasks.tasks if source in (None, task.source) for file in task.inputs]


def sample_texts(tasks: TaskList, size: int) -> list[str]:
    """Texts of the corpus, of so many characters together, from a few files spread over it.

    What is wrong with a file is not said here: the task that reads it will say it, with the place.
    """
    chosen = spread([(task.source, file) for task in tasks.tasks for file in task.inputs], _FILES)
    texts: list[str] = []
    for name, file in chosen:
        with suppress(SeatrialError):
            texts += _texts_of(file, tasks.settings.source(name), size // len(chosen))
    return texts


def _texts_of(file: InputFile, source: SourceSettings, size: int) -> list[str]:
    """Texts from the first batch of a file."""
    batch = next(iter(read_documents(file, source, open_input)), None)
    texts: list[str] = []
    for text in batch.texts if batch else ():
        if size <= 0:
            break
        texts.append(text[:_LONGEST])
        size -= len(texts[-1])
    return texts
