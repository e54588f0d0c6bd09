# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert prepared tokens to MDS: concatenate the documents and cut them at the sequence length.

LLM Foundry's converter (ConcatTokensDataset in `llmfoundry/data/data.py` of 0.22.0) appends the end
token to each document, joins them, cuts off samples and drops the remainder. The `.bin` of a source
already is this joined text. A shard therefore depends only on the file and its own number. It is
written completely or not at all, so finished shards survive a kill.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass

import numpy as np

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.dataset import DataFile, DatasetRecord
from seatrial.dataprep.output.index_file import token_type
from seatrial.dataprep.output.mds_shard import (
    INDEX_FILE,
    MdsShape,
    Tokens,
    encoded_index,
    encoded_shard,
    shard_name,
)
from seatrial.dataprep.output.stored_index import read_exactly
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.hashing import canonical_json
from seatrial.storage.state_files import parse_json
from seatrial.storage.store import Store

MADE_OF = "made-of.json"
"""Names the tokens in the shards next to it; shards of different tokens are deleted."""
SPLITS = ("train", "val")
"""The folders, named as in the converter; there is no third one."""

Made = Callable[[int], None]
"""Receives the bytes that were written since the last call."""


@dataclass(frozen=True, slots=True)
class Cut:
    directory: str
    """Path below the root of the data set."""
    source: str
    """The source whose files are concatenated."""
    length: int
    """Tokens per sample."""
    shares: tuple[float, float, float]
    """Shares of training, validation and test."""

    def files(self, record: DatasetRecord) -> tuple[DataFile, ...]:
        """Return the files to concatenate, in order."""
        return tuple(file for file in record.files if file.source == self.source)

    def samples(self, record: DatasetRecord) -> dict[str, tuple[int, int]]:
        """Return the first sample and the number of samples of each split."""
        every = sum(file.tokens for file in self.files(record)) // self.length
        whole = sum(self.shares)
        first = round(every * self.shares[0] / whole)
        second = round(every * (self.shares[0] + self.shares[1]) / whole)
        return {"train": (0, first), "val": (first, second - first)}


def cut(store: Store, record: DatasetRecord, wanted: Cut, made: Made | None = None) -> bool:
    """Write the splits of a source unless they exist; True if anything was written."""
    wrote = False
    # Partial shards of a killed process are next to the finished ones.
    store.sweep(wanted.directory)
    _begin(store, record, wanted)
    there = {file.path: file.size for file in store.list(wanted.directory)}
    files = wanted.files(record)
    for split, (first, samples) in wanted.samples(record).items():
        if not samples:
            continue
        place, shape = f"{wanted.directory}/{split}", MdsShape(wanted.length, samples)
        for shard in range(shape.shards):
            path = f"{place}/{shard_name(shard)}"
            if there.get(path) != shape.shard_bytes(shard):
                begin = (first + shard * shape.per_shard) * wanted.length
                tokens = _tokens(store, files, begin, shape.samples_of(shard) * wanted.length)
                with store.open_writer(path) as stream:
                    stream.write(encoded_shard(tokens, wanted.length))
                wrote = True
            if made is not None:
                made(shape.shard_bytes(shard))
        index = encoded_index(shape)
        if there.get(f"{place}/{INDEX_FILE}") != len(index):
            with store.open_writer(f"{place}/{INDEX_FILE}") as stream:
                stream.write(index)
            wrote = True
    return wrote


def _begin(store: Store, record: DatasetRecord, wanted: Cut) -> None:
    """Record the tokens of the shards before writing any; delete shards of different tokens."""
    digests = [file.tokens_digest for file in wanted.files(record)]
    made_of = canonical_json(asdict(wanted) | {"tokens": digests}).encode() + b"\n"
    path = f"{wanted.directory}/{MADE_OF}"
    if store.create(path, made_of):
        return
    if store.read(path) != made_of:
        # Delete this file last: if the deletion is killed, the next start must not take the
        # remaining shards for its own.
        there = (file.path for file in store.list(wanted.directory))
        store.delete([other for other in there if other != path])
        store.delete([path])
        store.create(path, made_of)


def _tokens(store: Store, files: tuple[DataFile, ...], begin: int, count: int) -> Tokens:
    """Read tokens of the concatenated files, starting at `begin`."""
    found = np.empty(count, np.int32)
    filled, before = 0, 0
    for file in files:
        start = max(0, begin + filled - before)
        take = min(count - filled, file.tokens - start)
        if take > 0:
            with closing(store.open_reader(file.tokens_file, start * file.token_bytes)) as stream:
                data = read_exactly(stream, take * file.token_bytes)
            found[filled : filled + take] = np.frombuffer(data, token_type(file.token_bytes))
            filled += take
        before += file.tokens
        if filled == count:
            break
    return found


def cuts_at(store: Store) -> list[Cut]:
    """Return the cuts of a data set, from the files next to the shards."""
    found = []
    for file in store.list():
        if file.path.rpartition("/")[2] == MADE_OF:
            try:
                values = parse_json(store.read(file.path))
                shares = tuple(float(share) for share in values["shares"])
                where = file.path.rpartition("/")[0]
                found.append(Cut(where, values["source"], values["length"], shares))  # type: ignore[arg-type]
            except (ValueError, KeyError, TypeError) as error:
                # A kill leaves it empty on volumes without links, such as BlobFuse.
                rule, fix = "the file does not describe its samples.", "Prepare the data again."
                place = Where(file=file.path)
                finding = Finding(DatasetCode.RECORD, Severity.ERROR, place, rule, "", fix)
                raise FindingsError([finding]) from error
    return found


def check_cut(store: Store, record: DatasetRecord, wanted: Cut) -> list[Finding]:
    """Compare the splits with the prepared tokens; reads all of them."""
    findings = []
    files = wanted.files(record)
    for split, (first, samples) in wanted.samples(record).items():
        shape = MdsShape(wanted.length, samples)
        for path, data in _expected(store, files, wanted, split, (first, shape)):
            try:
                same = store.read(path) == data
            except FileNotFoundError:
                rule, code = "the file is missing.", DatasetCode.ABSENT
            else:
                if same:
                    continue
                rule, code = "the file does not match its tokens.", DatasetCode.DIGEST
            fix = "Delete it and prepare the data again: the rest is kept."
            findings.append(Finding(code, Severity.ERROR, Where(file=path), rule, "", fix))
    return findings


def _expected(
    store: Store,
    files: tuple[DataFile, ...],
    wanted: Cut,
    split: str,
    extent: tuple[int, MdsShape],
) -> Iterator[tuple[str, bytes]]:
    """Yield the expected path and bytes of every file of a split."""
    first, shape = extent
    place = f"{wanted.directory}/{split}"
    for shard in range(shape.shards):
        begin = (first + shard * shape.per_shard) * wanted.length
        tokens = _tokens(store, files, begin, shape.samples_of(shard) * wanted.length)
        yield f"{place}/{shard_name(shard)}", encoded_shard(tokens, wanted.length)
    if shape.samples:
        yield f"{place}/{INDEX_FILE}", encoded_index(shape)


def require_samples(record: DatasetRecord, wanted: Cut, *, evaluates: bool) -> None:
    """Reject a data set if a split that the run reads has no sample."""
    samples = wanted.samples(record)
    needed = SPLITS if evaluates else SPLITS[:1]
    empty = [split for split in needed if not samples[split][1]]
    if empty:
        every = sum(count for _, count in samples.values())
        rule = f"{wanted.source} gives {every:,} samples of {wanted.length:,} tokens, but "
        rule += f"{empty[0]} gets none of them."
        fix = "Add text, change data.split, or set training.evaluation.batches=0."
        where = Where(field="data.split")
        raise FindingsError(
            [Finding(DatasetCode.SPLIT_EMPTY, Severity.ERROR, where, rule, str(every), fix)]
        )
