# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Decompress streams in bounded memory, and detect every truncated stream.

`zstandard` does not report a stream that ends in the middle of a frame. Seatrial therefore appends
a frame to every zstd stream: the stream was complete only if the decompressed content ends with the
content of that frame. The decoders of the other formats detect truncation (ADR 16).
"""

import bz2
import importlib
import io
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol, cast

import zstandard
from isal import igzip_lib

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.tasks.task_list import Compression, compression_of
from seatrial.errors import SeatrialError

_STORED_CHUNK = 1 << 20
"""Compressed bytes per read."""

# Zeros, because the compressed frame contains other bytes: if a stream is truncated inside an
# uncompressed block, the bytes of the frame become content, and they must not look like the seal.
_SEAL = bytes(64)
_SEAL_FRAME = zstandard.ZstdCompressor().compress(_SEAL)

_XZ_MEMORY = 256 << 20
"""Most memory for an xz stream. `xz -9` needs 65 MiB; a crafted file can request 4 GiB."""


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
            return _Members(stream, address, _GZIP)
        case Compression.BZIP2:
            return _Members(stream, address, _BZIP2)
        case Compression.XZ:
            return _Members(stream, address, _XZ)
        case Compression.LZ4:
            return _Lz4(stream, address)
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


class _MemberDecoder(Protocol):
    """Decodes one gzip member, bzip2 stream or xz stream."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _MemberFormat:
    """A compression whose files can have several members, one after the other."""

    name: str
    decoder: Callable[[], _MemberDecoder]
    error: type[Exception] | tuple[type[Exception], ...]
    """What the decoder raises for damaged data."""
    is_padded: bool = False
    """True if zero bytes may follow a member."""


_GZIP = _MemberFormat(
    "gzip",
    lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP),
    # The type hints of isal declare an exception instance instead of a class.
    cast(type[Exception], igzip_lib.error),
    is_padded=True,
)
_BZIP2 = _MemberFormat("bzip2", bz2.BZ2Decompressor, (OSError, ValueError, EOFError))
_XZ = _MemberFormat(
    "xz",
    lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
    lzma.LZMAError,
    is_padded=True,
)


class _Members:
    """A file of one or more compressed members."""

    def __init__(self, stream: BinaryIO, address: str, kind: _MemberFormat) -> None:
        self._address = address
        self._stream = stream
        self._format = kind
        self._count = 0
        self._data = b""
        self._member: _MemberDecoder | None = kind.decoder()

    def _more(self) -> bool:
        """Read more compressed data if needed; True if there is any."""
        if not self._data:
            self._data = self._stream.read(_STORED_CHUNK)
            self._count += len(self._data)
        return bool(self._data)

    def readinto(self, buffer: memoryview, /) -> int:
        while (member := self._current()) is not None:
            if member.needs_input and not self._more():
                what = f"the {self._format.name} stream is truncated"
                raise _broken(self._address, what, self._count)
            content = self._decompressed(member, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)
        return 0

    def _current(self) -> _MemberDecoder | None:
        """Return the decoder of the current member, advancing to the next one if needed."""
        while self._member is None and self._more():
            if self._format.is_padded:
                self._data = self._data.lstrip(b"\0")
            if self._data:
                self._member = self._format.decoder()
        return self._member

    def _decompressed(self, member: _MemberDecoder, size: int) -> bytes:
        data, self._data = (self._data, b"") if member.needs_input else (b"", self._data)
        try:
            content = member.decompress(data, size)
        except self._format.error as error:
            what = f"the {self._format.name} stream is damaged ({error})"
            raise _broken(self._address, what, self._count) from error
        if member.eof:
            self._data = member.unused_data
            self._member = None
        return content


class _Lz4:
    """A file of one or more LZ4 frames, which pyarrow decodes.

    pyarrow detects a truncated frame, but treats an empty file as complete.
    """

    def __init__(self, stream: BinaryIO, address: str) -> None:
        # Imported on demand: importing pyarrow takes longer than a small task.
        arrow = importlib.import_module("pyarrow")
        self._address = address
        self._stream = stream
        self._reader = arrow.CompressedInputStream(arrow.PythonFile(stream, mode="r"), "lz4")

    def readinto(self, buffer: memoryview, /) -> int:
        try:
            count: int = self._reader.readinto(buffer)
        except OSError as error:
            # Arrow wraps exceptions of the stream; raise Seatrial's own error unchanged.
            for cause in (error.__cause__, error.__context__):
                if isinstance(cause, SeatrialError):
                    raise cause from None
            state = "truncated" if "Truncated" in str(error) else f"damaged ({error})"
            raise _broken(
                self._address, f"the lz4 stream is {state}", self._stream.tell()
            ) from error
        if not count and not self._stream.tell():
            raise _broken(self._address, "the lz4 stream is truncated", 0)
        return count
