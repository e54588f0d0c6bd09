# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compressed streams, read in bounded memory and never shortened without a word.

`zstandard` takes a stream that ends in the middle of a frame for one that has ended. So every zstd
stream gets a frame of ours at its end: only if the reader comes out with the content of that frame
was everything before it whole. Gzip tells by itself.
"""

import io
from typing import BinaryIO, Protocol, cast

import zstandard
from isal import isal_zlib

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.tasks.task_list import Compression, compression_of

_STORED_CHUNK = 1 << 20
"""Bytes that are read at once of what is stored."""

# Zeros, because they come out of a frame as zeros and are none in it: had a stream been cut inside
# a block that is not compressed, the frame's own bytes would be taken for its content.
_SEAL = bytes(64)
_SEAL_FRAME = zstandard.ZstdCompressor().compress(_SEAL)

# The type hints of isal call it an exception, and not a class of exceptions.
_GZIP_ERROR = cast(type[Exception], isal_zlib.error)


class Content(Protocol):
    """What a file holds once it is decompressed."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Put the next bytes into a buffer of more than 64 and say how many; 0 at the end.

        Raises:
            BadInputError: A compressed stream is damaged or cut short.
        """


def content_of(stream: BinaryIO, address: str) -> Content:
    """The content of a stored file; its compression is told by the ending of its address."""
    match compression_of(address):
        case Compression.ZSTD:
            return _Zstd(stream, address)
        case Compression.GZIP:
            return _Gzip(stream, address)
        case None:
            return _Plain(stream)


class _Plain:
    """A file that is not compressed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readinto(self, buffer: memoryview, /) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _broken(address: str, what: str, at: int) -> BadInputError:
    return BadInputError(
        InputCode.STREAM,
        address,
        f"{what}, about {at:,} bytes into it.",
        "Download or write the file again, then start again; finished tasks are kept.",
    )


class _Sealed(io.RawIOBase):
    """A stored stream with the frame of ours right behind its last byte.

    They have to come in one piece: libzstd, when it has seen the first 5 bytes of a frame and then
    gets a piece that is a whole frame, forgets the 5.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held: bytes | None = stream.read(_STORED_CHUNK)
        self.count = 0

    def read(self, size: int = -1, /) -> bytes:
        """The next piece, of the size in which zstandard asks."""
        data = self._held
        if data is None:
            return b""
        self.count += len(data)
        self._held = self._stream.read(size) or None
        return data if self._held is not None else data + _SEAL_FRAME


class _Zstd:
    """A file of one or more zstd frames."""

    def __init__(self, stream: BinaryIO, address: str) -> None:
        self._address = address
        self._sealed = _Sealed(stream)
        self._reader = zstandard.ZstdDecompressor().stream_reader(
            cast(BinaryIO, self._sealed), read_size=_STORED_CHUNK, read_across_frames=True
        )
        # The last bytes so far, which are the seal if no others come.
        self._held = b""

    def readinto(self, buffer: memoryview, /) -> int:
        held = len(self._held)
        buffer[:held] = self._held
        size = held
        try:
            while size <= len(_SEAL) and (count := self._reader.readinto(buffer[size:])):
                size += count
        except zstandard.ZstdError as error:
            what = f"the zstd stream is damaged ({error})"
            raise _broken(self._address, what, self._sealed.count) from error
        rest = max(size - len(_SEAL), 0)
        self._held = bytes(buffer[rest:size])
        if not rest and (self._held != _SEAL or not self._sealed.count):
            what = "the zstd stream ends in the middle"
            raise _broken(self._address, what, self._sealed.count)
        return rest


class _Gzip:
    """A file of one or more gzip members, with zeros between them, which some tools pad with."""

    def __init__(self, stream: BinaryIO, address: str) -> None:
        self._address = address
        self._stream = stream
        self._count = 0
        self._data = b""
        self._member: isal_zlib.Decompress | None = isal_zlib.decompressobj(31)

    def _more(self) -> bool:
        """Whether there is stored data at hand."""
        if not self._data:
            self._data = self._stream.read(_STORED_CHUNK)
            self._count += len(self._data)
        return bool(self._data)

    def readinto(self, buffer: memoryview, /) -> int:
        try:
            while self._begin():
                if not self._more():
                    raise _broken(self._address, "the gzip stream ends in the middle", self._count)
                content = self._decompressed(len(buffer))
                if content:
                    buffer[: len(content)] = content
                    return len(content)
        except _GZIP_ERROR as error:
            what = f"the gzip stream is damaged ({error})"
            raise _broken(self._address, what, self._count) from error
        return 0

    def _begin(self) -> bool:
        """Whether there is a member to read, which may be the next one."""
        while self._member is None and self._more():
            self._data = self._data.lstrip(b"\0")
            if self._data:
                self._member = isal_zlib.decompressobj(31)
        return self._member is not None

    def _decompressed(self, size: int) -> bytes:
        member = self._member
        if member is None:
            return b""
        content = member.decompress(self._data, size)
        self._data = member.unconsumed_tail
        if member.eof:
            self._data = member.unused_data
            self._member = None
        return content
