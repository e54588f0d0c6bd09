# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The scanner: decides, without torch, if a checkpoint file may be loaded.

Zip readers disagree about unusual files: torch's reader ignores case and searches for the central
directory from the end, Python's accepts a prefix, and torch loads a file without a zip header as a
legacy pickle. Therefore the scanner accepts only the layout that every reader interprets in the
same way: entries without gaps from the first byte to the central directory, a central directory
that extends to the last byte, and no contradictions between them.
"""

import io
import re
import struct
import zlib
from bisect import bisect_right
from collections.abc import Buffer, Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from seatrial.checkpoints.pickle_rules import ARCHIVE_RULES, Rules, UnsafeFileError
from seatrial.checkpoints.pickle_scan import LARGEST_PICKLE, ScannedPickle, scan_pickle

__all__ = [
    "ArchiveEntry",
    "ArchiveView",
    "ScannedArchive",
    "UnsafeFileError",
    "scan_archive",
    "scan_pickle",
]

_END = struct.Struct("<4sHHHHIIH")
_END_64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR_64 = struct.Struct("<4sIQI")
_LISTED = struct.Struct("<4sHHHHHHIIIHHHHHII")
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_DESCRIPTOR = struct.Struct("<4sIII")
_DESCRIPTOR_64 = struct.Struct("<4sIQQ")
_FIELD = struct.Struct("<HH")
_MAX_16, _MAX_32 = 0xFFFF, 0xFFFFFFFF
_HAS_DESCRIPTOR, _UTF_8 = 0x0008, 0x0800
_ZIP_64, _PADDING = 0x0001, 0x4246
"""Types of extra fields. The second is torch's alignment padding (FB)."""
_FILE_TYPES = (0o000000, 0o100000)
"""File types in the attributes of an entry: none, or a regular file."""

_SMALL_ENTRY = 4096
"""Size limit in bytes for entries other than the pickle and the tensors."""
_PICKLE = "data.pkl"
_NOTES = ("version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id")
_STORAGE = re.compile(r"data/([0-9]{1,20})", re.ASCII)
_FOLDER = re.compile(r"[^/\\\x00-\x1f\x7f]{1,255}")
MOST_ENTRIES = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """The location of an archive entry."""

    begin: int
    """Relative to the start of the archive."""
    size: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class ScannedArchive:
    """An archive that passed the scan: the scanned bytes, and the location of its tensors."""

    stream: BinaryIO
    """The scanned file. Tensors are read only from this stream."""
    offset: int
    """The start of the archive in the stream."""
    length: int
    """Size of the archive in bytes."""
    content: ScannedPickle
    """The pickle `data.pkl`."""
    entries: dict[str, ArchiveEntry]
    """Entries by name, without the archive's folder."""
    notes: dict[str, bytes]
    """Contents of the small entries, by name."""
    pieces: tuple[tuple[int, bytes], ...] = field(repr=False)
    """All bytes outside tensors with their positions, in order."""

    def open(self) -> "ArchiveView":
        """Return the archive as a file with the scanned bytes, even if the file on disk changes."""
        return ArchiveView(self)


class ArchiveView(io.RawIOBase):
    """A file whose structure and pickle come from memory, and its tensors from the stream."""

    def __init__(self, archive: ScannedArchive) -> None:
        super().__init__()
        self._archive = archive
        self._begins = [begin for begin, _ in archive.pieces]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._archive.length}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill a buffer, up to the end of the archive."""
        target = memoryview(buffer).cast("B")
        wanted = max(0, min(len(target), self._archive.length - self._at))
        done = 0
        while done < wanted:
            done += self._part(target[done:wanted])
        return done

    def _part(self, target: memoryview) -> int:
        """Read up to the next boundary between memory and stream."""
        index = bisect_right(self._begins, self._at) - 1
        begin, piece = self._archive.pieces[index] if index >= 0 else (0, b"")
        inside = self._at - begin
        if inside < len(piece):
            data = piece[inside : inside + len(target)]
            target[: len(data)] = data
            self._at += len(data)
            return len(data)
        following = self._begins[index + 1] if index + 1 < len(self._begins) else None
        end = self._archive.length if following is None else following
        return self._from_stream(target[: end - self._at])

    def _from_stream(self, target: memoryview) -> int:
        stream = self._archive.stream
        stream.seek(self._archive.offset + self._at)
        if isinstance(stream, io.IOBase) and hasattr(stream, "readinto"):
            count = int(stream.readinto(target) or 0)
        else:
            data = stream.read(len(target))
            count = len(data)
            target[:count] = data
        if not count:
            raise UnsafeFileError("the file got shorter while it was loaded")
        self._at += count
        return count


def scan_archive(
    stream: BinaryIO, *, offset: int = 0, length: int | None = None, allowed: Rules = ARCHIVE_RULES
) -> ScannedArchive:
    """Check a torch archive, or a part of a file that is one. Raises UnsafeFileError.

    All bytes except the tensors are read once and kept, so that the loaded bytes are the scanned
    bytes.
    """
    if length is None:
        # The result of seek is unreliable: torch's item view returns the position in the file.
        stream.seek(0, io.SEEK_END)
        length = stream.tell() - offset
    return _Scan(stream, offset, length).run(allowed)


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry of the zip directory."""

    name: bytes
    flags: int
    crc: int
    size: int
    begin: int
    """The position of its local header."""
    extra: bytes


class _Scan:
    """Reads one archive."""

    def __init__(self, stream: BinaryIO, offset: int, length: int) -> None:
        self._stream = stream
        self._offset = offset
        self._length = length
        self._pieces: list[tuple[int, bytes]] = []

    def run(self, allowed: Rules) -> ScannedArchive:
        self._refuse_other_formats()
        begin, size, count = self._end()
        listed = list(self._directory(begin, size, count))
        names = _names(listed)
        entries: dict[str, ArchiveEntry] = {}
        notes: dict[str, bytes] = {}
        at = 0
        for name, one in zip(names, listed, strict=True):
            entries[name] = entry = self._local(one, at)
            if _STORAGE.fullmatch(name) is None:
                notes[name] = self._content(name, one, entry)
            at = self._descriptor(one, entry)
        if at != begin:
            raise UnsafeFileError(
                f"there are {begin - at:,} bytes between the entries and the central directory"
            )
        _refuse_order(notes)
        storages = {
            match[1]: entry.size
            for name, entry in entries.items()
            if (match := _STORAGE.fullmatch(name))
        }
        code = notes.pop(_PICKLE)
        scanned = scan_pickle(code, allowed, storages, newest=2)
        found = (scanned, entries, notes, tuple(sorted(self._pieces)))
        return ScannedArchive(self._stream, self._offset, self._length, *found)

    def _peek(self, at: int, count: int) -> bytes:
        if at < 0 or at + count > self._length:
            raise UnsafeFileError("it is truncated, or its central directory points outside it")
        self._stream.seek(self._offset + at)
        data = self._stream.read(count)
        if len(data) < count:
            raise UnsafeFileError("it is truncated")
        return data

    def _read(self, at: int, count: int) -> bytes:
        """Read bytes that the loader will see, once."""
        data = self._peek(at, count)
        self._pieces.append((at, data))
        return data

    def _refuse_other_formats(self) -> None:
        if self._length < _LOCAL.size + _LISTED.size + _END.size:
            raise UnsafeFileError(f"it is not a torch archive: it has only {self._length:,} bytes")
        head = self._peek(0, 4)
        if head == b"PK\x03\x04":
            return
        if head[0] == 0x80:
            what = "it starts with a pickle (torch's legacy format)"
        else:
            what = "it does not start with a zip entry"
        raise UnsafeFileError(f"it is not a torch archive: {what}")

    def _end(self) -> tuple[int, int, int]:
        """Return the position, the size and the number of entries of the central directory."""
        most = min(self._length, _END_64.size + _LOCATOR_64.size + _END.size)
        tail = self._peek(self._length - most, most)
        magic, disk, first, here, count, size, begin, comment = _END.unpack(tail[-_END.size :])
        if magic != b"PK\x05\x06" or comment:
            raise UnsafeFileError("bytes follow the zip central directory, or it has a comment")
        if disk or first or here != count:
            raise UnsafeFileError("it is part of a multi-volume archive")
        told, rest = (count, size, begin), _END.size
        if tail[_END_64.size :].startswith(b"PK\x06\x07"):
            rest = most
            told = _end_64(tail, self._length - most, told)
        count, size, begin = told
        at = self._length - rest
        if begin + size != at or size < count * _LISTED.size or count > MOST_ENTRIES:
            raise UnsafeFileError("its central directory is not at the stated position")
        self._pieces.append((at, tail[-rest:]))
        return begin, size, count

    def _directory(self, begin: int, size: int, count: int) -> Iterable[_Listed]:
        data = self._read(begin, size)
        at = 0
        for _ in range(count):
            if at + _LISTED.size > size:
                raise UnsafeFileError("its central directory is shorter than stated")
            values = _LISTED.unpack_from(data, at)
            names, extras, comments = values[10:13]
            text = data[at + _LISTED.size : at + _LISTED.size + names + extras]
            at += _LISTED.size + names + extras
            if comments or at > size:
                raise UnsafeFileError("an entry in the zip central directory has a comment")
            yield _listed(values, text[:names], text[names:])
        if at != size:
            raise UnsafeFileError("its central directory is longer than stated")

    def _local(self, listed: _Listed, at: int) -> ArchiveEntry:
        """Compare the local header of an entry with the central directory."""
        if listed.begin != at:
            raise UnsafeFileError("its entries overlap, or there are bytes between them")
        head = self._read(at, _LOCAL.size)
        magic, _, flags, method, _, _, crc, stored, size, names, extras = _LOCAL.unpack(head)
        rest = self._read(at + _LOCAL.size, names + extras)
        name, extra = rest[:names], rest[names:]
        if magic != b"PK\x03\x04" or name != listed.name or flags != listed.flags or method:
            raise UnsafeFileError("the header of an entry contradicts the central directory")
        long = _local_extra(extra)
        given = (crc, stored, size)
        if flags & _HAS_DESCRIPTOR:
            # torch writes 0 as the compressed size until it has written a 4 GiB entry.
            early = listed.extra[:12] + bytes(8) + listed.extra[20:]
            known = (listed.extra, early) if listed.size >= _MAX_32 else (listed.extra,)
            agreed = given == (0, 0, 0) and long in known
        elif long:
            agreed = given == (listed.crc, _MAX_32, _MAX_32) and long == _zip_64(
                listed.size, listed.size
            )
        else:
            agreed = given == (listed.crc, listed.size, listed.size)
        if not agreed:
            raise UnsafeFileError("the header of an entry contradicts the central directory")
        return ArchiveEntry(at + _LOCAL.size + names + extras, listed.size)

    def _descriptor(self, listed: _Listed, entry: ArchiveEntry) -> int:
        """Compare the data descriptor with the central directory. Return the position after it."""
        at = entry.begin + entry.size
        if not listed.flags & _HAS_DESCRIPTOR:
            return at
        form = _DESCRIPTOR_64 if listed.extra else _DESCRIPTOR
        values = form.unpack(self._read(at, form.size))
        if values != (b"PK\x07\x08", listed.crc, listed.size, listed.size):
            raise UnsafeFileError(
                "the data descriptor of an entry contradicts the central directory"
            )
        return at + form.size

    def _content(self, name: str, listed: _Listed, entry: ArchiveEntry) -> bytes:
        largest = LARGEST_PICKLE if name == _PICKLE else _SMALL_ENTRY
        if entry.size > largest:
            raise UnsafeFileError(f"{name} has {entry.size:,} bytes, more than {largest:,}")
        data = self._read(entry.begin, entry.size)
        # torch writes 0 if checksums are disabled (set_crc32_options), and checks none on load.
        if listed.crc not in (0, zlib.crc32(data)):
            raise UnsafeFileError(f"the checksum of {name} is wrong")
        return data


def _end_64(tail: bytes, at: int, told: tuple[int, int, int]) -> tuple[int, int, int]:
    """Compare the zip64 records with the end-of-archive record."""
    magic, rest, _, _, this, first, here, *full = _END_64.unpack_from(tail)
    _, disk, where, disks = _LOCATOR_64.unpack_from(tail, _END_64.size)
    count, size, begin = full
    if magic != b"PK\x06\x06" or rest != _END_64.size - 12:
        raise UnsafeFileError("its zip64 record is invalid")
    if disk or disks > 1 or this or first or here != count or where != at:
        raise UnsafeFileError("its zip64 records contradict each other")
    for short, long, limit in zip(told, full, (_MAX_16, _MAX_32, _MAX_32), strict=True):
        if short not in (limit, long):
            raise UnsafeFileError("its zip64 record contradicts the end-of-archive record")
    return count, size, begin


def _listed(values: tuple[Any, ...], name: bytes, extra: bytes) -> _Listed:
    """Check a single entry in the central directory."""
    magic, _, _, flags, method, _, _, crc, stored, size, _, _, _, disk, _, mode, begin = values
    if magic != b"PK\x01\x02" or disk:
        raise UnsafeFileError("its central directory is damaged")
    if flags & ~(_HAS_DESCRIPTOR | _UTF_8):
        raise UnsafeFileError("an entry is encrypted or uses a zip feature that torch never uses")
    if method:
        raise UnsafeFileError("an entry is compressed, which torch never does")
    if (mode >> 16) & 0o170000 not in _FILE_TYPES or mode & 0x10:
        raise UnsafeFileError("an entry is a link or a directory")
    told = [size, stored, begin]
    beyond = [number for number, one in enumerate(told) if one == _MAX_32]
    if extra:
        form = struct.Struct(f"<{len(beyond)}Q")
        if (
            not beyond
            or extra[:4] != _FIELD.pack(_ZIP_64, form.size)
            or len(extra) != (form.size + _FIELD.size)
        ):
            raise UnsafeFileError("an entry in its central directory has unknown extra fields")
        for number, one in zip(beyond, form.unpack(extra[_FIELD.size :]), strict=True):
            told[number] = one
    elif beyond:
        raise UnsafeFileError("an entry has no zip64 field although its size requires one")
    if told[0] != told[1]:
        raise UnsafeFileError("an entry is compressed, which torch never does")
    return _Listed(name, flags, crc, told[0], told[2], extra)


def _zip_64(*values: int) -> bytes:
    return _FIELD.pack(_ZIP_64, 8 * len(values)) + struct.pack(f"<{len(values)}Q", *values)


def _local_extra(extra: bytes) -> bytes:
    """Return the zip64 field of a local header. Rejects all other fields but torch's padding."""
    found, at = b"", 0
    seen: list[int] = []
    while at < len(extra):
        if at + _FIELD.size > len(extra):
            raise UnsafeFileError("the extra field of an entry is damaged")
        kind, size = _FIELD.unpack_from(extra, at)
        content = extra[at + _FIELD.size : at + _FIELD.size + size]
        if kind == _ZIP_64:
            found = extra[at : at + _FIELD.size + size]
        elif kind != _PADDING or content.strip(b"Z"):
            raise UnsafeFileError("an entry has an extra field that torch does not write")
        seen.append(kind)
        at += _FIELD.size + size
    if at != len(extra) or seen not in ([], [_ZIP_64], [_PADDING], [_ZIP_64, _PADDING]):
        raise UnsafeFileError("the extra field of an entry is damaged")
    return found


def _names(listed: list[_Listed]) -> list[str]:
    """Return the names inside the archive's folder. Rejects duplicate and unknown names."""
    found: list[str] = []
    folders: set[str] = set()
    for one in listed:
        try:
            folder, slash, name = one.name.decode("utf-8").partition("/")
        except UnicodeDecodeError as error:
            raise UnsafeFileError("the name of an entry is not UTF-8") from error
        if not slash or _FOLDER.fullmatch(folder) is None or folder in (".", ".."):
            raise UnsafeFileError(f"an entry has the invalid name {folder + slash + name!r}")
        if name not in (_PICKLE, *_NOTES) and _STORAGE.fullmatch(name) is None:
            raise UnsafeFileError(f"it has an entry {name!r}, which torch never writes")
        folders.add(folder)
        found.append(name)
    # torch compares names case-insensitively; the known names differ in more than case.
    if len(folders) != 1 or len(set(found)) != len(found):
        raise UnsafeFileError("it has entries with the same name, or more than one folder")
    if _PICKLE not in found:
        raise UnsafeFileError(f"it is not a torch archive: it has no {_PICKLE}")
    return found


def _refuse_order(notes: dict[str, bytes]) -> None:
    if notes.get("byteorder", b"little") not in (b"little", b"big"):
        raise UnsafeFileError("it has an unknown byte order")
