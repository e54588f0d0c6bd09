# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read the members of a tar archive from a stream, in bounded memory and without extracting them.

Python's `tarfile` decodes the headers. It does not iterate over the archive: it ends silently at a
damaged header and at an archive that is cut between two members, and it reads an extended header
of any size into memory.
"""

import io
import tarfile
from collections.abc import Buffer, Iterator
from typing import BinaryIO, NamedTuple, cast

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents.decompression import Content

_BLOCK = tarfile.BLOCKSIZE
_EMPTY_BLOCK = bytes(_BLOCK)
_PIECE = 1 << 20
_LONGEST_HEADER = 1 << 20
"""Most bytes of an extended header: a name in it is at most a few KiB."""
_LONGEST_LABEL = 200
_WITHOUT_CONTENT = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
)


class TarMember(NamedTuple):
    """A member of an archive."""

    name: str
    """The name in the archive. It is only a label: no file of this name is opened."""
    label: str
    """The address of the archive and the name, safe to print."""
    stream: BinaryIO
    """The stored bytes; can be read until the next member."""
    link: str | None
    """What the member links to; None if it is not a link or a special file."""
    is_directory: bool


def broken_archive(address: str, rule: str, fix: str, value: str = "") -> BadInputError:
    """Return the error for an archive that cannot be read."""
    return BadInputError(InputCode.ARCHIVE, address, rule, fix, value)


class _Archive:
    """The decompressed bytes of an archive."""

    def __init__(self, content: Content, address: str) -> None:
        self._content = content
        self.address = address
        self._buffer = memoryview(bytearray(_PIECE))
        self._start = self._end = 0
        self.position = 0
        self.has_ended = False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, and none only at the end."""
        if self._start == self._end:
            self._start, self._end = 0, self._content.readinto(self._buffer)
        data = bytes(self._buffer[self._start : min(self._end, self._start + size)])
        self._start += len(data)
        self.position += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        """Return `size` bytes; fewer only at the end."""
        data = self.read(size)
        while len(data) < size and (more := self.read(size - len(data))):
            data += more
        return data

    def truncated(self) -> BadInputError:
        """Return the error for an archive that ends too early."""
        return broken_archive(
            self.address,
            f"the tar archive is truncated after {self.position:,} bytes.",
            "Download or write the file again, then rerun the command; finished tasks are kept.",
        )

    def damaged(self, what: str) -> BadInputError:
        """Return the error for a header that cannot be used."""
        return broken_archive(
            self.address,
            f"the tar archive is damaged at byte {self.position:,}: {what}.",
            "Download or write the file again, then rerun the command; finished tasks are kept.",
        )


class _MemberStream(io.RawIOBase):
    """The stored bytes of one member."""

    def __init__(self, archive: _Archive, size: int) -> None:
        self._archive = archive
        self._size = size
        self._left = size

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size - self._left

    def read(self, size: int = -1, /) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        if not wanted:
            return b""
        data = self._archive.read(wanted)
        if not data:
            raise self._archive.truncated()
        self._left -= len(data)
        return data

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def skip(self) -> None:
        """Skip the unread rest of the member and its padding."""
        while self.read(_PIECE):
            pass
        padding = -self._size % _BLOCK
        if len(self._archive.exactly(padding)) < padding:
            raise self._archive.truncated()


def members_of(content: Content, address: str) -> Iterator[TarMember]:
    """Yield the members of an archive, also of several archives one after the other.

    Raises:
        BadInputError: The archive is damaged or truncated, or has a sparse member.
    """
    archive = _Archive(content, address)
    while (header := _header(archive)) is not None:
        extended = _Extended(None, None)
        while header.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, *_SKIPPED):
            extended = _extended(archive, header, extended)
            following = _header(archive)
            if following is None:
                raise archive.damaged("an extended header has no member")
            header = following
        name = header.name if extended.name is None else extended.name
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise _sparse(archive, name)
        size = header.size if extended.size is None else extended.size
        has_content = header.type not in _WITHOUT_CONTENT
        if has_content and size < 0:
            raise archive.damaged(f"{label_of(address, name)} has a negative size")
        stream = _MemberStream(archive, size if has_content else 0)
        is_directory = header.type == tarfile.DIRTYPE
        link = None if has_content or is_directory else header.linkname or "a special file"
        yield TarMember(name, label_of(address, name), cast(BinaryIO, stream), link, is_directory)
        stream.skip()
    if not archive.has_ended:
        # The last blocks of an archive are empty; without them, members may be missing.
        raise archive.truncated()


def label_of(address: str, name: str) -> str:
    """Return a printable address of a member."""
    printable = name if name.isprintable() else ascii(name)[1:-1]
    return f"{address}/{printable[:_LONGEST_LABEL]}"


_SKIPPED = (tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGLINK)
"""Headers of headers that do not affect the name or the content of a member."""


class _Extended(NamedTuple):
    """Values that replace those of a header."""

    name: str | None
    size: int | None


def _header(archive: _Archive) -> tarfile.TarInfo | None:
    """Return the next header; None at the end of the file."""
    while block := archive.exactly(_BLOCK):
        if block == _EMPTY_BLOCK:
            archive.has_ended = True
            continue
        archive.has_ended = False
        if len(block) < _BLOCK:
            raise archive.truncated()
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError) as error:
            raise archive.damaged(f"{error} in a header") from error
    return None


def _extended(archive: _Archive, header: tarfile.TarInfo, before: _Extended) -> _Extended:
    """Read an extended header and merge its values with those of earlier ones."""
    if not 0 <= header.size <= _LONGEST_HEADER:
        raise archive.damaged(f"an extended header has {header.size:,} bytes")
    stream = _MemberStream(archive, header.size)
    data = b"".join(iter(lambda: stream.read(_LONGEST_HEADER), b""))
    stream.skip()
    if header.type == tarfile.GNUTYPE_LONGNAME:
        name = data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        return before._replace(name=name)
    if header.type != tarfile.XHDTYPE:
        return before
    values = _pax_values(archive, data)
    if any(key.startswith(b"GNU.sparse.") for key in values):
        raise _sparse(archive, values.get(b"path", b"").decode("utf-8", "surrogateescape"))
    size = values.get(b"size")
    if size is not None and not size.isdigit():
        raise archive.damaged("a size in an extended header is not a number")
    return _Extended(
        values[b"path"].decode("utf-8", "surrogateescape") if b"path" in values else before.name,
        before.size if size is None else int(size),
    )


def _pax_values(archive: _Archive, data: bytes) -> dict[bytes, bytes]:
    """Parse the records `LENGTH KEY=VALUE` of an extended header."""
    values: dict[bytes, bytes] = {}
    at = 0
    while at < len(data) and data[at]:
        length, space, _ = data[at : at + 20].partition(b" ")
        end = at + int(length) if space and length.isdigit() else 0
        key, equals, value = data[at + len(length) + 1 : end].partition(b"=")
        if end > len(data) or not equals or not value.endswith(b"\n"):
            raise archive.damaged("an extended header has an invalid record")
        values[key] = value[:-1]
        at = end
    return values


def _sparse(archive: _Archive, name: str) -> BadInputError:
    return broken_archive(
        label_of(archive.address, name),
        "the member is stored as a sparse file, which can expand to any size.",
        "Write the archive again without sparse files (GNU tar without --sparse).",
    )
