# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The record of a checkpoint: what was saved, by which start, and for which configuration.

The record stays small for any run size: a separate shard list contains the files and their SHA-256
digests, and the record contains only the digest of that list. A directory without a record is not a
checkpoint.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from seatrial.checkpoints.setup import Setup, setup_from_dict, setup_to_dict
from seatrial.hashing import canonical_json, digest
from seatrial.storage.state_files import parse_json

FORMAT = 1
"""The record version that this version of Seatrial writes."""
LARGEST_RECORD = 1 << 20
"""Size limit in bytes."""


class RecordError(ValueError):
    """A damaged record. The message states the reason."""


@dataclass(frozen=True, slots=True)
class ShardList:
    """A summary of a checkpoint's shard list."""

    files: int
    size: int
    """Total size of the files in bytes."""
    digest: str
    """Digest of the list, prefixed with the algorithm and a colon."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record that makes a checkpoint valid."""

    step: int
    """The last trained step."""
    consumed_samples: int
    """Number of sequences trained on, up to and including this step."""
    saved_at: str
    """Time of the commit, in UTC."""
    incarnation: int
    """The number of the start that saved this checkpoint."""
    shards: ShardList
    setup: Setup
    """The configuration of the run: layout, model, data order, tokenizer, versions."""
    validation_loss: float | None = None
    """The last validation loss before the save; None if there was no evaluation."""
    format: int = FORMAT
    """The record version."""

    def to_bytes(self) -> bytes:
        """Serialize as canonical JSON that contains its own digest."""
        values = _values(self)
        return canonical_json({**values, "digest": digest(values)}).encode()

    @property
    def identity(self) -> str:
        """The digest of the whole record. Nodes compare it to detect different checkpoints."""
        return digest(_values(self))


def _values(record: "Record") -> dict[str, Any]:
    return asdict(record) | {"setup": setup_to_dict(record.setup)}


def record_from_bytes(data: bytes) -> Record:
    """Parse a record. Raises RecordError if even one bit has changed."""
    try:
        values: dict[str, Any] = parse_json(data)
        stated = values.pop("digest")
        if values.get("format") != FORMAT:
            raise RecordError(
                f"its format version is {values.get('format')!r}, but only {FORMAT} is supported"
            )
        if stated != digest(values):
            raise RecordError("it does not match its own digest")
        shards = ShardList(**values.pop("shards"))
        setup = setup_from_dict(values.pop("setup"))
        record = Record(shards=shards, setup=setup, **values)
    except RecordError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"it cannot be parsed ({type(error).__name__})") from error
    # The same data can be written as JSON in many ways, and even a changed space is damage.
    if record.to_bytes() != data:
        raise RecordError("it is not the canonical JSON that a commit writes")
    return record


LONGEST_LINE = 4096
"""Limit in bytes; longer than any valid line."""


class ShardListError(ValueError):
    """A damaged shard list."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """One checkpoint file, as written by a rank."""

    name: str
    size: int
    """In bytes."""
    sha256: str
    """Hexadecimal digest, computed while the file was written."""

    def to_line(self) -> bytes:
        """Format the file as a line of the list."""
        return canonical_json([self.name, self.size, self.sha256]).encode() + b"\n"


def write_list(files: Iterable[ShardFile], stream: BinaryIO) -> ShardList:
    """Write the list and return its summary for the record."""
    hasher, count, size = hashlib.sha256(), 0, 0
    for file in files:
        line = file.to_line()
        hasher.update(line)
        stream.write(line)
        count, size = count + 1, size + file.size
    return ShardList(count, size, f"sha256:{hasher.hexdigest()}")


def read_list(stream: BinaryIO, stated: ShardList) -> Iterator[ShardFile]:
    """Yield the files. Raises ShardListError at the end if the list does not match the record."""
    hasher, count, size = hashlib.sha256(), 0, 0
    while line := stream.readline(LONGEST_LINE):
        hasher.update(line)
        file = _from_line(line)
        count, size = count + 1, size + file.size
        yield file
    if ShardList(count, size, f"sha256:{hasher.hexdigest()}") != stated:
        raise ShardListError("it does not match the digest in the record")


def _from_line(line: bytes) -> ShardFile:
    """Parse a line. Rejects names that point outside the directory."""
    try:
        name, size, sha256 = parse_json(line)
        file = ShardFile(str(name), int(size), str(sha256))
    except (ValueError, TypeError, RecursionError) as error:
        raise ShardListError("it contains a line that cannot be parsed") from error
    if not file.name or "/" in file.name or "\0" in file.name or file.name in (".", ".."):
        raise ShardListError(f"it lists {file.name!r}, which is not a plain file name")
    return file
