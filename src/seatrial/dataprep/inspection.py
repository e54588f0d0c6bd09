# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inspect a prepared data set: decode documents, and explain any range of bytes."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.excerpts import Document, Piece
from seatrial.dataprep.output.completion import finished_record
from seatrial.dataprep.output.dataset import DataFile, DatasetRecord
from seatrial.dataprep.output.index_file import token_type
from seatrial.dataprep.output.mds_splits import check_cut, cuts_at
from seatrial.dataprep.output.stored_index import StoredIndex
from seatrial.dataprep.output.tokenizer_copy import COPY
from seatrial.dataprep.tasks.records import RECORD_FILE
from seatrial.dataprep.tokenizers.backends import LADDERS
from seatrial.dataprep.tokenizers.encoder import Encoder
from seatrial.dataprep.tokenizers.identity import describe, model_of
from seatrial.dataprep.verification.verify import verify
from seatrial.errors import SeatrialError, UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.naming import nearest
from seatrial.storage.access import store_at
from seatrial.storage.store import Store

MOST_PIECES = 1000
"""Most pieces to explain in one call."""


def record_at(address: str) -> DatasetRecord:
    """Return the record of the data set at an address."""
    record = finished_record(store_at(address))
    if record is None:
        raise UsageError(
            f"{address} has no {RECORD_FILE}, so there is no data set. "
            "Prepare it with: seatrial data prepare run.yaml. For a run on a cluster whose volume "
            "this host does not mount, add --on kubernetes to both commands."
        )
    return record


def verify_at(address: str) -> list[Finding]:
    """Verify the data set at an address; return the problems and the skipped checks."""
    record, store = record_at(address), store_at(address)
    samples = [finding for one in cuts_at(store) for finding in check_cut(store, record, one)]
    data = tokenizer_data(store, record)
    if data is None:
        return [*verify(store, record), *samples, _not_decoded(record)]
    with TemporaryDirectory(prefix="seatrial-") as directory:
        file = Path(directory) / "tokenizer"
        file.write_bytes(data)
        return [*verify(store, record, tokenizer_file=file), *samples]


def _not_decoded(record: DatasetRecord) -> Finding:
    """Return a note that the check that needs the tokenizer was skipped."""
    tokenizer = record.settings.tokenizer
    return Finding(
        DatasetCode.ROUND_TRIP,
        Severity.NOTE,
        Where(file=RECORD_FILE),
        "no document was decoded and compared: the tokenizer of the data set is no longer at"
        f" {tokenizer.address}, or it cannot be read.",
        tokenizer.address,
        f"Restore the file with the SHA-256 {tokenizer.sha256[:12]}… and verify again.",
    )


def tokenizer_data(store: Store, record: DatasetRecord) -> bytes | None:
    """Return the tokenizer of a data set, or None if it is no longer available."""
    wanted = record.settings.tokenizer.sha256
    for name, checksum in (record.tokenizer_files or {}).items():
        if checksum == wanted:
            with suppress(SeatrialError, OSError):
                data = store.read(f"{COPY}/{name}")
                if sha256(data).hexdigest() == wanted:
                    return data
    with suppress(SeatrialError, OSError):
        tokenizer, data = describe(record.settings.tokenizer.address)
        if tokenizer.sha256 == record.settings.tokenizer.sha256:
            return data
    return None


class Inspection:
    """One file of a data set, opened for inspection."""

    def __init__(self, store: Store, record: DatasetRecord, file: DataFile, *, index: bool) -> None:
        """Open the tokens of a file, or its index."""
        self.store, self.record, self.file, self.is_index = store, record, file, index
        self.address = store.address
        self.index = StoredIndex(store, file)

    @classmethod
    def at(cls, address: str, name: str | None = None) -> "Inspection":
        """Open a file of the data set at an address; the first one by default."""
        record = record_at(address)
        if not record.files:
            raise UsageError(f"the data set at {address} has no documents.")
        plain = (name or record.files[0].name).removesuffix(".bin").removesuffix(".idx")
        names = [file.name for file in record.files]
        if plain not in names:
            match = nearest(plain, names)
            hint = f"Did you mean {match}?" if match else f"The first is {names[0]}."
            raise UsageError(f"there is no file {plain} in the data set at {address}. {hint}")
        file = record.files[names.index(plain)]
        return cls(store_at(address), record, file, index=(name or "").endswith(".idx"))

    @cached_property
    def _encoder(self) -> Encoder | None:
        """The tokenizer of the data set, for decoding; None if not available."""
        data = tokenizer_data(self.store, self.record)
        if data is None:
            return None
        tokenizer = self.record.settings.tokenizer
        model = model_of(tokenizer, data)
        return Encoder(tokenizer, model, LADDERS[tokenizer.kind][-1])

    def document(self, number: int) -> Document:
        if not 0 <= number < self.file.documents:
            raise UsageError(
                f"there is no document {number} in {self.file.name}: it has 0 to "
                f"{self.file.documents - 1}."
            )
        start, end = self.index.span(number)
        ids = self._tokens(start, end)
        return Document(
            self.file.name, number, self.file.documents, start, tuple(ids), self._decoded(ids)
        )

    def _tokens(self, start: int, end: int) -> list[int]:
        """Return the tokens between two offsets in the `.bin`."""
        with self.store.open_reader(self.file.tokens_file, start) as stream:
            data = stream.read(end - start)
        return [int(token) for token in np.frombuffer(data, token_type(self.file.token_bytes))]

    def _decoded(self, ids: list[int]) -> str:
        """Decode tokens, or return their IDs if the tokenizer is not available."""
        return self._encoder.decode(ids) if self._encoder else " ".join(map(str, ids))

    def explain(self, start: int, end: int) -> list[Piece]:
        """Explain the bytes between two offsets."""
        size = self.file.header.size if self.is_index else self.file.tokens_size
        if start >= size:
            raise UsageError(f"{self._path} has {size:,} bytes; byte {start:,} is not in it.")
        pieces: list[Piece] = []
        for piece in self._pieces(start, min(end, size)):
            if len(pieces) == MOST_PIECES:
                pieces.append(Piece(piece.start, end, "…", "more; use a shorter range"))
                break
            pieces.append(piece)
        return pieces

    @property
    def _path(self) -> str:
        return self.file.index_file if self.is_index else self.file.tokens_file

    def _pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the pieces that overlap the range."""
        if self.is_index:
            for at, stop, shown, meaning in self.index.explain(start, end):
                yield Piece(at, stop, shown, meaning)
        else:
            yield from self._token_pieces(start, end)

    def _token_pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the tokens of a range, each with its document."""
        width = self.file.token_bytes
        at = start - start % width
        while at < end:
            document = self.index.document_at(at)
            begin, stop = self.index.span(document)
            for token in self._tokens(at, min(stop, end + -end % width)):
                number = (at - begin) // width
                of = f"token {number:,} of document {document:,}"
                text = repr(self._decoded([token])) if self._encoder else ""
                if token == self.record.settings.tokenizer.end_of_document:
                    text = f"{text}, the end of a document".lstrip(", ")
                yield Piece(at, at + width, str(token), f"{of}: {text}" if text else of)
                at += width
