# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The list of a checkpoint's files, read and written line by line: there may be 100,000."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from seatrial.checkpoints.record import ShardList
from seatrial.hashing import canonical_json

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
        name, size, sha256 = json.loads(line)
        file = ShardFile(str(name), int(size), str(sha256))
    except (ValueError, TypeError, RecursionError) as error:
        raise ShardListError("a line of it cannot be read") from error
    if not file.name or "/" in file.name or "\0" in file.name or file.name in (".", ".."):
        raise ShardListError(f"it names {file.name!r}, which is not a file's name")
    return file
