# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A little of a corpus: some files spread over it, and some documents of each."""

from collections.abc import Sequence
from contextlib import suppress

from seatrial.dataprep.documents.reading import read_documents
from seatrial.dataprep.inputs.access import open_input
from seatrial.dataprep.tasks.task_list import InputFile, SourceSettings, TaskList
from seatrial.errors import SeatrialError

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
