# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel: turn the raw files of one task into a part, under any driver.

The output depends only on the task. On English text, tokenizing takes two thirds of the time; most
of the rest is decompression and JSON parsing (measured).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents.batches import (
    BadLine,
    BadLineReason,
    DocumentBatch,
    LineCount,
    LineLocation,
    joined,
    selected,
)
from seatrial.dataprep.documents.reading import Opener, read_documents
from seatrial.dataprep.inputs.access import open_input
from seatrial.dataprep.kernel.bad_lines import BadLines
from seatrial.dataprep.kernel.memory import memory_in_use
from seatrial.dataprep.kernel.parts import PartWriter
from seatrial.dataprep.tasks.records import Counts, PartRecord, part_prefix, record_file
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat, Task, TaskList, TaskSettings
from seatrial.dataprep.tokenizers.encoder import Encoder, OutOfVocabularyError
from seatrial.spec.data import EmptyDocuments, EndTokenInText
from seatrial.storage.store import Store

ONE_IN = 1000
"""One in this many documents is audited."""
LONGEST = 1 << 16
"""Most characters of a document to audit. The reference takes 50 ms for this length and 100 times
the memory, so a few long documents would cost more than all others."""


def chosen(task: int, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Choose the documents of a task to audit by their positions, always the same ones.

    It mixes as SplitMix64 does, so that no pattern in the input can escape it.
    """
    mixed = positions.astype(np.uint64) + np.uint64(task << 32) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    picked: NDArray[np.bool_] = mixed % np.uint64(ONE_IN) == 0
    return picked


def audit(
    encoder: Encoder,
    texts: Sequence[str],
    tokens: NDArray[np.generic],
    lengths: NDArray[np.int64],
    numbers: Sequence[int],
    place: Callable[[int], LineLocation],
) -> int:
    """Tokenize some texts again with the reference, compare, and return how many.

    Args:
        encoder: The encoder that produced the tokens.
        texts: The texts.
        tokens: The tokens of all texts, including the end tokens.
        lengths: Tokens per text, including the end token.
        numbers: Indices of the texts to audit.
        place: Returns the location of a text by its index.

    Raises:
        BadInputError: The tokens of the reference differ.
    """
    picked = [] if encoder.is_reference else [i for i in numbers if len(texts[i]) <= LONGEST]
    if not picked:
        return 0
    expected, counts = encoder.reference.encode([texts[i] for i in picked])
    ends, expected_ends = np.cumsum(lengths), np.cumsum(counts)
    for i, end, count in zip(picked, expected_ends, counts, strict=True):
        found = tokens[ends[i] - lengths[i] : ends[i]][:-1]
        if not np.array_equal(found, expected[end - count : end]):
            at = place(i)
            raise BadInputError(
                InputCode.AUDIT,
                at.address,
                f"{encoder.backend} and {encoder.reference.backend} give different tokens for this"
                " document, so no part that the former produced can be trusted.",
                f"Uninstall {encoder.name} and prepare the data again; please report the document.",
                encoder.backend,
                line=at.line,
            )
    return len(picked)


_READ_AHEAD = 2 << 20
"""Most bytes that a decompressor has read beyond the lines it has returned."""
_ENOUGH = 8 << 20
"""Characters to tokenize together; with fewer, the overhead per call matters."""
_MEMORY = 512 << 20
"""If the process uses more bytes than this, the tokenizer is reloaded, which takes 0.2 s."""
_MOST_TOKENS = (1 << 31) - 1
"""Lengths are int32 and include the end token."""

type Progress = Callable[[int], None]
"""Receives the stored bytes of a task that have been read."""


def run_task(
    task: Task,
    tasks: TaskList,
    store: Store,
    encoder: Encoder,
    attempt: str,
    progress: Progress | None = None,
    opener: Opener = open_input,
) -> PartRecord:
    """Prepare a task and commit its record.

    Args:
        task: The task.
        tasks: The list that contains it.
        store: The store of the output.
        encoder: The tokenizer, from `open_encoder`.
        attempt: A unique name for this attempt.
        progress: Receives the bytes that have been read.
        opener: Opens an input.

    Returns:
        The record; if another attempt was faster, its record, and this attempt leaves no files.

    Raises:
        BadInputError: An input cannot be read, has too many bad lines, or has a line that is
            neither in the part nor listed as bad.
    """
    began, cpu_began = time.monotonic(), time.process_time()
    writer = PartWriter(store, part_prefix(tasks.name, task.number, attempt), task.source)
    run = _Run(task, tasks.settings, encoder, writer)
    try:
        for file in task.inputs:
            run.read(file, opener, progress)
        run.flush()
        run.bad.check_share(run.count.lines)
        files, quarantine, quarantine_digest = writer.close()
        record = PartRecord(
            task=task.number,
            list_digest=tasks.digest,
            attempt=attempt,
            files=files,
            counts=run.counts(),
            lengths=tuple(map(int, run.tally.lengths)),
            quarantine_file=quarantine,
            backend=run.backend,
            seconds=round(time.monotonic() - began, 3),
            cpu_seconds=round(time.process_time() - cpu_began, 3),
            quarantine_digest=quarantine_digest,
        )
        path = record_file(tasks.name, task.number)
        if store.create(path, record.to_json()):
            return record
        writer.abort()
        return PartRecord.from_json(store.read(path))
    except BaseException:
        writer.abort()
        raise
    finally:
        writer.release()


@dataclass(slots=True)
class _Tally:
    """The counts of a task so far."""

    documents: int = 0
    dropped: int = 0
    text_bytes: int = 0
    input_bytes: int = 0
    audited: int = 0
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def add_lengths(self, lengths: NDArray[np.int32]) -> None:
        # The exponent of a number is its bit length; for 0 it is 0.
        more = np.bincount(np.frexp(lengths)[1])
        if len(more) < len(self.lengths):
            more = np.pad(more, (0, len(self.lengths) - len(more)))
        more[: len(self.lengths)] += self.lengths
        self.lengths = more


class _Run:
    """One running task."""

    def __init__(
        self, task: Task, settings: TaskSettings, encoder: Encoder, writer: PartWriter
    ) -> None:
        self._task = task
        self._settings = settings
        self._source = settings.source(task.source)
        self._encoder = encoder.for_policy(settings.end_token_in_text)
        self._rescued = self._encoder.rescued
        self._writer = writer
        self._type = np.dtype("<u2" if settings.tokenizer.token_bytes == 2 else "<i4")
        self._waiting: list[DocumentBatch] = []
        self._waiting_size = 0
        self._position = 0
        self._usable = 0
        self._memory_limit = _MEMORY
        self.bad = BadLines(task.size, settings.largest_bad_share)
        self.tally = _Tally()
        self.count = LineCount()

    def counts(self) -> Counts:
        return Counts(
            lines=self.count.lines,
            documents=self.tally.documents,
            dropped=self.tally.dropped,
            bad=dict(self.bad.counts),
            text_bytes=self.tally.text_bytes,
            input_bytes=self.tally.input_bytes,
            audited=self.tally.audited,
        )

    @property
    def backend(self) -> str:
        """Name the backend, and the reference if it had to tokenize some documents."""
        if self._encoder.rescued == self._rescued:
            return self._encoder.backend
        return f"{self._encoder.backend}, and {self._encoder.reference.backend} where it failed"

    def read(self, file: InputFile, opener: Opener, progress: Progress | None) -> None:
        """Prepare one file of the task."""
        before = self.tally.input_bytes
        streams: list[BinaryIO] = []

        def opened(file: InputFile) -> BinaryIO:
            streams.append(opener(file))
            return streams[-1]

        for batch in read_documents(file, self._source, opened, self.count):
            self._take(batch)
            at = file.size if streams[0].closed else min(streams[0].tell(), file.size)
            if progress is not None:
                progress(before + at)
            if not self._usable:
                # A Parquet file is not read sequentially.
                sure = 0 if file.format is InputFormat.PARQUET else max(0, at - _READ_AHEAD)
                self.bad.check_all_bad(before + sure)
        self._check_lines(file)
        self.tally.input_bytes = before + file.size
        if progress is not None:
            progress(self.tally.input_bytes)

    def _check_lines(self, file: InputFile) -> None:
        """Check that every line up to the end of a file is a document or listed as bad."""
        waiting = sum(len(batch.texts) for batch in self._waiting)
        written = self.tally.documents + self.tally.dropped
        found = waiting + written + self.bad.counts.total()
        if found != self.count.lines:
            raise BadInputError(
                InputCode.LOST,
                file.address,
                f"the task has {self.count.lines:,} lines up to the end of this file, but"
                f" {found:,} of them became documents or are listed as bad.",
                "The task was discarded. Please report this with the file.",
                str(found),
            )

    def _take(self, batch: DocumentBatch) -> None:
        """Collect documents, also of small files, until a call of the tokenizer pays off."""
        if batch.bad:
            self._set_aside(batch.bad)
        self._usable += len(batch.texts)
        self._waiting.append(batch)
        self._waiting_size += sum(map(len, batch.texts))
        if self._waiting_size >= _ENOUGH:
            self.flush()

    def _set_aside(self, bad: Sequence[BadLine]) -> None:
        self._writer.add_bad(bad)
        self.bad.add(bad)

    def flush(self) -> None:
        """Write the collected documents."""
        if not self._waiting:
            return
        batch = joined(self._waiting)
        self._waiting, self._waiting_size = [], 0
        if self._settings.end_token_in_text is EndTokenInText.BAD:
            batch = self._without_end_token(batch)
        if batch.texts:
            self._write(batch)

    def _without_end_token(self, batch: DocumentBatch) -> DocumentBatch:
        """Return the documents without the end token; the others are bad."""
        end = self._encoder.end_text
        held = [i for i, text in enumerate(batch.texts) if end in text]
        if not held:
            return batch
        self._set_aside(
            [BadLine(batch.place(i), BadLineReason.END_IN_TEXT, ascii(end)) for i in held]
        )
        out = set(held)
        return selected(batch, [i for i in range(len(batch.texts)) if i not in out])

    def _write(self, batch: DocumentBatch) -> None:
        """Tokenize documents and write them."""
        self._watch_memory()
        positions = np.arange(self._position, self._position + len(batch.texts))
        self._position += len(batch.texts)
        names, sizes = [""], [len(batch.texts)]
        if batch.domains is None:
            self._writer.number_of("")
        else:
            # Sorted by domain, so that the documents of one file are contiguous.
            numbers = np.fromiter(map(self._writer.number_of, batch.domains), np.int64)
            order = np.argsort(numbers, kind="stable")
            batch, positions = selected(batch, order.tolist()), positions[order]
            names = list(dict.fromkeys(batch.domains or ()))
            sizes = np.unique(numbers, return_counts=True)[1].tolist()
        try:
            tokens, lengths = self._encoder.encode_documents(batch.texts, self._type)
        except OutOfVocabularyError as error:
            raise self._wrong_id(batch, error) from error
        picked = np.flatnonzero(chosen(self._task.number, positions)).tolist()
        if picked:
            self.tally.audited += audit(
                self._encoder, batch.texts, tokens, lengths, picked, batch.place
            )
        self.tally.text_bytes += bytes_of(batch.texts)
        self._check_length(batch, lengths)
        self._store(names, sizes, tokens, lengths.astype(np.int32))

    def _watch_memory(self) -> None:
        """Clear the cache of the tokenizer before this process grows too large."""
        if memory_in_use() > self._memory_limit:
            self._encoder.renew()
            # Memory that is not the tokenizer's stays in use, so raise the limit.
            self._memory_limit = max(_MEMORY, memory_in_use() + _MEMORY // 4)

    def _wrong_id(self, batch: DocumentBatch, error: OutOfVocabularyError) -> BadInputError:
        return BadInputError(
            InputCode.AUDIT,
            str(batch.place(0)),
            f"{self._encoder.backend} returns {error}, starting with this document.",
            f"Uninstall {self._encoder.name} and prepare the data again.",
        )

    def _check_length(self, batch: DocumentBatch, lengths: NDArray[np.int64]) -> None:
        longest = int(np.argmax(lengths))
        if lengths[longest] > _MOST_TOKENS:
            raise BadInputError(
                InputCode.LENGTH,
                str(batch.place(longest)),
                f"the document has {int(lengths[longest]):,} tokens; the format allows at most"
                f" {_MOST_TOKENS:,}.",
                "Split it.",
            )

    def _store(
        self,
        names: Sequence[str],
        sizes: Sequence[int],
        tokens: NDArray[Any],
        lengths: NDArray[np.int32],
    ) -> None:
        """Write documents that are sorted by domain."""
        drop = self._settings.empty_documents is EmptyDocuments.DROP
        first = begin = 0
        for name, size in zip(names, sizes, strict=True):
            counts = lengths[first : first + size]
            end = begin + int(counts.sum(dtype=np.int64))
            kept = counts[counts > 0] if drop else counts
            self._writer.add(name, tokens[begin:end], kept)
            self.tally.documents += len(kept)
            self.tally.dropped += size - len(kept)
            self.tally.add_lengths(kept)
            first, begin = first + size, end


def bytes_of(texts: Sequence[str]) -> int:
    """Return the UTF-8 size of texts in bytes."""
    others = [*filterfalse(str.isascii, texts)]
    more = sum(map(len, map(str.encode, others))) - sum(map(len, others))
    return sum(map(len, texts)) + more
