# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of a token file: IDs, document ends, and the digest of every segment."""

from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.dataset import DataFile, Segment
from seatrial.dataprep.output.index_file import BLOCK, HEADER_BYTES, token_type
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.output.stored_index import Numbers, arrays
from seatrial.dataprep.tasks.task_list import TaskSettings
from seatrial.dataprep.verification.stopping import Readable
from seatrial.findings import Finding
from seatrial.spec.data import EndTokenInText
from seatrial.storage.digests import hasher_like, matches

CHUNK = 1 << 20
"""Tokens per chunk."""


def check_tokens(store: Readable, file: DataFile, settings: TaskSettings) -> list[Finding]:
    """Check the tokens of a file whose sizes are correct and whose index is valid."""
    report = VerificationReport(file.tokens_file)
    ends = _Ends(store, file)
    check = _Check(report, file, settings)
    with closing(store.open_reader(file.tokens_file)) as stream, closing(ends):
        for segment in file.segments:
            for tokens in check.segment(stream, segment):
                check.ids(tokens)
                check.document_ends(tokens, ends.until(check.place + tokens.size))
                check.place += tokens.size
    return report.findings()


class _Ends:
    """The ends of documents in tokens, read from the index on demand."""

    def __init__(self, store: Readable, file: DataFile) -> None:
        self._stream = store.open_reader(file.index_file, HEADER_BYTES)
        self._blocks = arrays(self._stream, file.header.sequences, "<i4", BLOCK)
        self._known = np.zeros(0, np.int64)
        self._last = 0

    def until(self, place: int) -> NDArray[np.int64]:
        """Return the next ends up to a position."""
        known = [self._known]
        while self._last < place and (block := next(self._blocks, None)) is not None:
            ends = np.cumsum(block, dtype=np.int64) + self._last
            self._last = int(ends[-1])
            known.append(ends)
        every = np.concatenate(known) if len(known) > 1 else known[0]
        cut = int(np.searchsorted(every, place, side="right"))
        self._known = every[cut:]
        return every[:cut]

    def close(self) -> None:
        self._stream.close()


class _Check:
    """The checks and their position."""

    def __init__(self, report: VerificationReport, file: DataFile, settings: TaskSettings) -> None:
        self.place = 0
        """Tokens that have been checked."""
        self._report = report
        self._file = file
        self._vocab_size = settings.tokenizer.vocab_size
        self._end = settings.tokenizer.end_of_document
        self._inside = settings.end_token_in_text is EndTokenInText.TOKEN
        self._sequences = 0

    def segment(self, stream: BinaryIO, segment: Segment) -> Iterator[Numbers]:
        """Yield the tokens of one segment in chunks, then check their digest."""
        hasher = hasher_like(segment.digest)
        begin = self.place
        stored = token_type(self._file.token_bytes)
        yield from arrays(stream, segment.tokens, stored, CHUNK, hasher)
        if not matches(hasher, segment.digest):
            width = self._file.token_bytes
            spot = f"bytes {begin * width} to {self.place * width - 1}, of task {segment.task}"
            rule = f"{spot}: the digest differs from the recorded {segment.digest}."
            self._report.add(DatasetCode.DIGEST, rule, hasher.hexdigest())

    def ids(self, tokens: Numbers) -> None:
        """Check that every ID is in the vocabulary."""
        if int(tokens.max()) < self._vocab_size and int(tokens.min()) >= 0:
            return
        wrong = np.flatnonzero((tokens >= self._vocab_size) | (tokens < 0))
        first = int(wrong[0])
        rule = (
            f"{self._spot(first)}: ID {tokens[first]} is not in the vocabulary of "
            f"{self._vocab_size}."
        )
        fix = (
            "Check whether the data was prepared with this run's tokenizer. If not, prepare it "
            "again."
        )
        self._report.add(
            DatasetCode.VOCABULARY, rule, int(tokens[first]), number=wrong.size, fix=fix
        )

    def document_ends(self, tokens: Numbers, ends: NDArray[np.int64]) -> None:
        """Check that every document ends with the end token, and contains no other if required."""
        last = ends - (self.place + 1)
        wrong = np.flatnonzero(tokens[last] != self._end)
        if wrong.size:
            first = int(wrong[0])
            at, value = int(last[first]), int(tokens[last[first]])
            rule = (
                f"{self._spot(at)}: sequence {self._sequences + first} ends with ID {value} "
                f"instead of {self._end}, the end-of-document token."
            )
            self._report.add(DatasetCode.END, rule, value, number=wrong.size)
        self._sequences += ends.size
        if self._inside:
            return
        inside = int(np.count_nonzero(tokens == self._end)) - (ends.size - wrong.size)
        if inside:
            where = np.setdiff1d(np.flatnonzero(tokens == self._end), last)
            rule = (
                f"{self._spot(int(where[0]))}: the end-of-document token, {self._end}, is inside a "
                "document, which the policy excludes."
            )
            self._report.add(DatasetCode.END_INSIDE, rule, self._end, number=inside)

    def _spot(self, place: int) -> str:
        return f"byte {(self.place + place) * self._file.token_bytes}"
