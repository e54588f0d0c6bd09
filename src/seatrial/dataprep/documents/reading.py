# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read documents from raw files in batches, with the bad lines and the reasons.

Memory is bounded: a batch holds a few MiB of a file, or one document if that is longer.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from seatrial.dataprep.documents.archive import read_archive
from seatrial.dataprep.documents.batches import DocumentBatch, LineCount
from seatrial.dataprep.documents.decompression import content_of
from seatrial.dataprep.documents.json_lines import read_json_lines
from seatrial.dataprep.documents.text import read_text
from seatrial.dataprep.inputs.access import open_input
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat, SourceSettings, TaskList
from seatrial.errors import SeatrialError

type Opener = Callable[[InputFile], BinaryIO]
"""Opens the stored bytes of an input as a seekable stream."""


def read_documents(
    file: InputFile, source: SourceSettings, opener: Opener, count: LineCount | None = None
) -> Iterator[DocumentBatch]:
    """Yield the documents of one file in order.

    Args:
        file: The file.
        source: Settings of its source.
        opener: Opens the file.
        count: Counts the lines; complete after the last batch.

    Raises:
        BadInputError: The file cannot be read: a compressed stream or an archive is truncated or
            damaged, or a Parquet file lacks a column.
    """
    count = count or LineCount()
    with opener(file) as stream:
        match file.format:
            case InputFormat.JSONL:
                content = content_of(stream, file.address)
                yield from read_json_lines(content, file.address, source, count)
            case InputFormat.PARQUET:
                # Imported on demand: importing pyarrow takes longer than a small task.
                rows = importlib.import_module("seatrial.dataprep.documents.parquet")
                yield from rows.read_parquet(stream, file.address, source, count)
            case InputFormat.TAR:
                yield from read_archive(stream, file.address, source, count)
            case InputFormat.TEXT | InputFormat.TEXT_LINES | InputFormat.TEXT_PARAGRAPHS:
                content = content_of(stream, file.address)
                yield from read_text(content, file.address, file.format, source, count)


_FILES = 4
"""Files to sample texts from."""
_LONGEST = 1 << 15
"""Characters to use of each text: enough to distinguish tokenizers."""


def spread[T](items: Sequence[T], count: int) -> list[T]:
    """Return `count` items, evenly spaced and starting with the first."""
    taken = min(count, len(items))
    return [items[i * len(items) // taken] for i in range(taken)]


def inputs_of(tasks: TaskList, source: str | None = None) -> list[InputFile]:
    """Return all inputs, or those of one source, in order."""
    return [file for task in tasks.tasks if source in (None, task.source) for file in task.inputs]


def sample_texts(tasks: TaskList, size: int) -> list[str]:
    """Sample about `size` characters of text from a few files across the corpus.

    Errors in a file are ignored here: the task that reads the file reports them.
    """
    chosen = spread([(task.source, file) for task in tasks.tasks for file in task.inputs], _FILES)
    texts: list[str] = []
    for name, file in chosen:
        with suppress(SeatrialError):
            texts += _texts_of(file, tasks.settings.source(name), size // len(chosen))
    return texts


def _texts_of(file: InputFile, source: SourceSettings, size: int) -> list[str]:
    """Return texts from the first batch of a file."""
    batch = next(iter(read_documents(file, source, open_input)), None)
    texts: list[str] = []
    for text in batch.texts if batch else ():
        if size <= 0:
            break
        texts.append(text[:_LONGEST])
        size -= len(texts[-1])
    return texts
