# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The items of a checkpoint shard: each is a small zip archive of torch, with a pickle in it."""

import io
import zipfile
from collections.abc import Iterable
from typing import BinaryIO

from seatrial.checkpoints.pickles import PickleError, StoredItem, refuse_unknown

LARGEST_PICKLE = 256 << 20
"""Bytes; the engine's arguments and random states take far less."""


class _Window(io.RawIOBase):
    """A part of a stream, as a file of its own."""

    def __init__(self, stream: BinaryIO, offset: int, length: int) -> None:
        self._stream, self._offset, self._length, self._at = stream, offset, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._length - self._at)
        wanted = left if size < 0 else min(size, left)
        self._stream.seek(self._offset + self._at)
        data = self._stream.read(wanted)
        self._at += len(data)
        return data


def item_archive(stream: BinaryIO, item: StoredItem) -> zipfile.ZipFile:
    """The archive of one item."""
    return zipfile.ZipFile(_Window(stream, item.offset, item.length))


def refuse_code(stream: BinaryIO, items: Iterable[StoredItem]) -> None:
    """Raise PickleError where an item of a shard is not what torch writes, or asks for more."""
    for item in items:
        try:
            with item_archive(stream, item) as archive:
                for entry in archive.infolist():
                    if entry.filename.endswith(".pkl"):
                        _refuse_entry(archive, entry)
        except PickleError as error:
            raise PickleError(f"{item.name}: {error}") from None
        except (OSError, MemoryError):
            raise
        except Exception as error:
            raise PickleError(f"{item.name}: no archive of torch ({error})") from error


def _refuse_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    if entry.file_size > LARGEST_PICKLE:
        raise PickleError(f"a pickle of {entry.file_size:,} bytes")
    # torch stores without compression; what would grow is not from it.
    if entry.compress_type != zipfile.ZIP_STORED:
        raise PickleError("it is compressed")
    refuse_unknown(archive.read(entry))
