# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Check the files of parts against their records, and copy them into larger files."""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from seatrial.storage.digests import hasher_like, matches
from seatrial.storage.store import Store

_BUFFER = 1 << 20
_AT_ONCE = 64 << 20
"""Bytes per copy call of the kernel, so that an interrupt takes effect in between."""

Go = Callable[[], None]
"""Called for each block; raises an exception if the work should stop."""


@dataclass(frozen=True, slots=True)
class CopiedPiece:
    """A file of a part, as its record describes it."""

    task: int
    path: str
    """Path below the root of the store."""
    size: int
    """Bytes."""
    digest: str


class DamagedPartError(Exception):
    """A piece differs from its record."""

    def __init__(self, piece: CopiedPiece, rule: str, value: str) -> None:
        """Store the piece, the broken rule and the value found."""
        self.piece = piece
        self.rule = rule
        self.value = value
        super().__init__(f"{piece.path}: {rule}")


def read_checked(store: Store, piece: CopiedPiece) -> Iterator[memoryview]:
    """Yield the bytes of a piece in blocks; each block is valid until the next one.

    Raises an error if they differ from the record. The digest is known only after the last block:
    use none of the blocks before the end.
    """
    with _opened(store, piece) as stream:
        yield from _blocks(stream, piece)


def copy_piece(store: Store, piece: CopiedPiece, out: BinaryIO, go: Go = lambda: None) -> None:
    """Append a piece to a file, with a copy inside the kernel if both are local files.

    Some file systems then share the blocks or copy within the server, and move no data. Of data
    that the kernel copies, only the size is checked here: the digest must match that of the segment
    in the new file, which verification reads anyway.
    """
    with _opened(store, piece) as stream:
        source, target = _descriptor(stream), _descriptor(out)
        if source is None or target is None or not hasattr(os, "copy_file_range"):
            copied = 0
        else:
            _check_size(piece, os.fstat(source).st_size)
            copied = _copied(source, target, piece.size, go)
        if copied == 0:
            for block in _blocks(stream, piece):
                go()
                out.write(block)
        elif copied < piece.size:
            stream.seek(copied)
            while rest := stream.read(_BUFFER):
                go()
                out.write(rest)


def _check_size(piece: CopiedPiece, size: int) -> None:
    if size != piece.size:
        found = f"more than {piece.size}" if size > piece.size else str(size)
        raise DamagedPartError(
            piece, f"the file has {found} bytes; its record states {piece.size}.", found
        )


def _opened(store: Store, piece: CopiedPiece) -> BinaryIO:
    try:
        return store.open_reader(piece.path)
    except FileNotFoundError:
        raise DamagedPartError(piece, "the file is missing.", "") from None


def _blocks(stream: BinaryIO, piece: CopiedPiece) -> Iterator[memoryview]:
    """Yield the blocks of a stream, and check its size and digest."""
    try:
        hasher = hasher_like(piece.digest)
    except ValueError as error:
        raise DamagedPartError(piece, f"its record is invalid: {error}.", piece.digest) from None
    buffer = memoryview(bytearray(_BUFFER))
    size = 0
    while count := stream.readinto(buffer):  # type: ignore[attr-defined]
        size += count
        if size > piece.size:
            break
        hasher.update(buffer[:count])
        yield buffer[:count]
    _check_size(piece, size)
    if not matches(hasher, piece.digest):
        raise DamagedPartError(
            piece, f"its digest differs from the recorded {piece.digest}.", hasher.hexdigest()
        )


def _descriptor(stream: BinaryIO) -> int | None:
    """Return the file descriptor of a stream; None if it has none."""
    try:
        return stream.fileno()
    except (OSError, AttributeError, io.UnsupportedOperation):
        return None


def _copied(source: int, target: int, size: int, go: Go) -> int:
    """Copy inside the kernel as far as possible; return the copied bytes."""
    done = 0
    while done < size:
        go()
        try:
            count = os.copy_file_range(source, target, min(size - done, _AT_ONCE), offset_src=done)
        except OSError:
            # The kernel cannot copy between these two, or no write is possible, as on a full disk.
            # In the latter case the store reports it on the next ordinary write.
            break
        if count == 0:
            break
        done += count
    return done
