# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The record of a checkpoint: what was saved, by whom, and what it belongs to.

It is small whatever the size of the run: the files, with a SHA-256 each, stand in a list of their
own, and the record holds the digest of that list. A directory without a record does not exist.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from seatrial.checkpoints.setup import Setup, setup_from_dict, setup_to_dict
from seatrial.hashing import canonical_json, digest
from seatrial.storage.state_files import parse_json

FORMAT = 1
"""The version of the record that this Seatrial writes."""
LARGEST_RECORD = 1 << 20
"""Bytes; a longer file is no record."""


class RecordError(ValueError):
    """A record that is not what a commit wrote; the text says why."""


@dataclass(frozen=True, slots=True)
class ShardList:
    """The list of a checkpoint's files."""

    files: int
    size: int
    """Bytes of all of them together."""
    digest: str
    """Digest of the list, with the name of the algorithm before a colon."""


@dataclass(frozen=True, slots=True)
class Record:
    """What makes a checkpoint count."""

    step: int
    """The step after which it was saved."""
    consumed_samples: int
    """Sequences that were trained on up to then."""
    saved_at: str
    """When it was committed, in UTC."""
    incarnation: int
    """The start of the processes that saved it."""
    shards: ShardList
    setup: Setup
    """What the state belongs to: layout, model, data order, tokenizer, versions."""
    validation_loss: float | None = None
    """The last validation loss before the save; none where nothing was evaluated."""
    format: int = FORMAT
    """The version of the record."""

    def to_bytes(self) -> bytes:
        """The record as it is stored: canonical JSON that holds its own digest."""
        values = _values(self)
        return canonical_json({**values, "digest": digest(values)}).encode()

    @property
    def identity(self) -> str:
        """The digest of the whole record, by which nodes compare what they see."""
        return digest(_values(self))


def _values(record: "Record") -> dict[str, Any]:
    """The record as plain data."""
    return asdict(record) | {"setup": setup_to_dict(record.setup)}


def record_from_bytes(data: bytes) -> Record:
    """The record as it was stored; RecordError where a single bit of it is another."""
    try:
        values: dict[str, Any] = parse_json(data)
        stated = values.pop("digest")
        if values.get("format") != FORMAT:
            raise RecordError(f"its format is {values.get('format')!r}, and {FORMAT} is known")
        if stated != digest(values):
            raise RecordError("it does not match its own digest")
        shards = ShardList(**values.pop("shards"))
        setup = setup_from_dict(values.pop("setup"))
        record = Record(shards=shards, setup=setup, **values)
    except RecordError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"it cannot be read ({type(error).__name__})") from error
    # JSON has many spellings of the same data, and a changed space is damage too.
    if record.to_bytes() != data:
        raise RecordError("it is not written as a commit writes it")
    return record


LONGEST_LINE = 4096
"""Bytes; no line of ours is as long."""


class ShardListError(ValueError):
    """A list that is not what a commit wrote."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """One file of a checkpoint, as the rank wrote it."""

    name: str
    """Its name in the checkpoint's directory."""
    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal digest, made while the file was written."""

    def to_line(self) -> bytes:
        """The file as a line of the list."""
        return canonical_json([self.name, self.size, self.sha256]).encode() + b"\n"


def write_list(files: Iterable[ShardFile], stream: BinaryIO) -> ShardList:
    """Write the list and return what the record says of it."""
    hasher, count, size = hashlib.sha256(), 0, 0
    for file in files:
        line = file.to_line()
        hasher.update(line)
        stream.write(line)
        count, size = count + 1, size + file.size
    return ShardList(count, size, f"sha256:{hasher.hexdigest()}")


def read_list(stream: BinaryIO, stated: ShardList) -> Iterator[ShardFile]:
    """The files, one by one; ShardListError at the end where the list is not the stated one."""
    hasher, count, size = hashlib.sha256(), 0, 0
    while line := stream.readline(LONGEST_LINE):
        hasher.update(line)
        file = _from_line(line)
        count, size = count + 1, size + file.size
        yield file
    if ShardList(count, size, f"sha256:{hasher.hexdigest()}") != stated:
        raise ShardListError("it does not match the digest in the record")


def _from_line(line: bytes) -> ShardFile:
    """The file of a line; names lead nowhere else."""
    try:
        name, size, sha256 = parse_json(line)
        file = ShardFile(str(name), int(size), str(sha256))
    except (ValueError, TypeError, RecursionError) as error:
        raise ShardListError("a line of it cannot be read") from error
    if not file.name or "/" in file.name or "\0" in file.name or file.name in (".", ".."):
        raise ShardListError(f"it names {file.name!r}, which is not a file's name")
    return file
