# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Decompress streams in bounded memory, and detect every truncated stream.

`zstandard` does not report a stream that ends in the middle of a frame. Seatrial therefore appends
a frame to every zstd stream: the stream was complete only if the decompressed content ends with the
content of that frame. Gzip detects truncation itself.
"""

import io
from typing import BinaryIO, Protocol, cast

import zstandard
from isal import isal_zlib

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.tasks.task_list import Compression, compression_of

_STORED_CHUNK = 1 << 20
"""Compressed bytes per read."""

# Zeros, because the compressed frame contains other bytes: if a stream is truncated inside an
# uncompressed block, the bytes of the frame become content, and they must not look like the seal.
_SEAL = bytes(64)
_SEAL_FRAME = zstandard.ZstdCompressor().compress(_SEAL)

# The type hints of isal declare an exception instance instead of a class.
_GZIP_ERROR = cast(type[Exception], isal_zlib.error)


class Content(Protocol):
    """The decompressed content of a file."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill a buffer of more than 64 bytes and return the number of bytes; 0 at the end.

        Raises:
            BadInputError: A compressed stream is damaged or truncated.
        """


def content_of(stream: BinaryIO, address: str) -> Content:
    """Open the content of a stored file; the suffix of the address determines the compression."""
    match compression_of(address):
        case Compression.ZSTD:
            return _Zstd(stream, address)
        case Compression.GZIP:
            return _Gzip(stream, address)
        case None:
            return _Plain(stream)


class _Plain:
    """An uncompressed file."""

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
        f"{what}, about {at:,} bytes into the file.",
        "Download or write the file again, then rerun the command; finished tasks are kept.",
    )


class _Sealed(io.RawIOBase):
    """A stored stream with the seal frame directly after its last byte.

    They must arrive in one chunk: if libzstd has seen the first 5 bytes of a frame and the next
    chunk is a whole frame, it drops the 5 bytes.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held: bytes | None = stream.read(_STORED_CHUNK)
        self.count = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return the next chunk, of the size that zstandard requests."""
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
        # The last bytes so far. They are the seal if no more follow.
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
            what = "the zstd stream is truncated"
            raise _broken(self._address, what, self._sealed.count)
        return rest


class _Gzip:
    """A file of one or more gzip members, possibly with zero padding between them."""

    def __init__(self, stream: BinaryIO, address: str) -> None:
        self._address = address
        self._stream = stream
        self._count = 0
        self._data = b""
        self._member: isal_zlib.Decompress | None = isal_zlib.decompressobj(31)

    def _more(self) -> bool:
        """Read more compressed data if needed; True if there is any."""
        if not self._data:
            self._data = self._stream.read(_STORED_CHUNK)
            self._count += len(self._data)
        return bool(self._data)

    def readinto(self, buffer: memoryview, /) -> int:
        try:
            while self._begin():
                if not self._more():
                    raise _broken(self._address, "the gzip stream is truncated", self._count)
                content = self._decompressed(len(buffer))
                if content:
                    buffer[: len(content)] = content
                    return len(content)
        except _GZIP_ERROR as error:
            what = f"the gzip stream is damaged ({error})"
            raise _broken(self._address, what, self._count) from error
        return 0

    def _begin(self) -> bool:
        """Advance to the next member if needed; True if there is one."""
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
