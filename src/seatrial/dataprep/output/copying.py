# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files of parts on their way into larger files: held against their records, and copied."""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from seatrial.storage.digests import hasher_like, matches
from seatrial.storage.store import Store

_BUFFER = 1 << 20
_AT_ONCE = 64 << 20
"""Bytes that the kernel is asked to copy at a time: in between, somebody may want to stop."""

Go = Callable[[], None]
"""Called for each block; raises when the work is to be given up."""


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
    """A piece is not what its record says."""

    def __init__(self, piece: CopiedPiece, rule: str, value: str) -> None:
        """Keep the piece, what is wrong and what was found instead."""
        self.piece = piece
        self.rule = rule
        self.value = value
        super().__init__(f"{piece.path}: {rule}")


def read_checked(store: Store, piece: CopiedPiece) -> Iterator[memoryview]:
    """The bytes of a piece in blocks that are good until the next; an error at a difference.

    The last block has been given before the digest is known: use none of them before the end.
    """
    with _opened(store, piece) as stream:
        yield from _blocks(stream, piece)


def copy_piece(store: Store, piece: CopiedPiece, out: BinaryIO, go: Go = lambda: None) -> None:
    """Append a piece to a file; in the kernel where both lie in its file systems.

    Some file systems then share the blocks, or copy within the server, and nothing is moved. Of
    what the kernel copies only the size is checked here: its digest has to be that of the segment
    in the new file, and whoever verifies that file reads it anyway.
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
            piece, f"the file has {found} bytes, and its record {piece.size}.", found
        )


def _opened(store: Store, piece: CopiedPiece) -> BinaryIO:
    try:
        return store.open_reader(piece.path)
    except FileNotFoundError:
        raise DamagedPartError(piece, "the file is gone.", "") from None


def _blocks(stream: BinaryIO, piece: CopiedPiece) -> Iterator[memoryview]:
    """The blocks of a stream, while its size and its digest are checked."""
    try:
        hasher = hasher_like(piece.digest)
    except ValueError as error:
        raise DamagedPartError(piece, f"its record is of no use: {error}.", piece.digest) from None
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
            piece, f"its digest is not {piece.digest}, as recorded.", hasher.hexdigest()
        )


def _descriptor(stream: BinaryIO) -> int | None:
    """The number that the kernel knows an open file by; None for what is no file."""
    try:
        return stream.fileno()
    except (OSError, AttributeError, io.UnsupportedOperation):
        return None


def _copied(source: int, target: int, size: int, go: Go) -> int:
    """Copy in the kernel as far as it will."""
    done = 0
    while done < size:
        go()
        try:
            count = os.copy_file_range(source, target, min(size - done, _AT_ONCE), offset_src=done)
        except OSError:
            # It cannot copy between these two, or neither can anybody, as on a full disk: then
            # the store says so, with what to do, when it is written to in the ordinary way.
            break
        if count == 0:
            break
        done += count
    return done
