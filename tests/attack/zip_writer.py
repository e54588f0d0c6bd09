# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write a zip archive byte by byte, as torch does or with any field wrong.

`zipfile` writes correct archives only, and it may not agree with torch about what is correct.
"""

import struct
import zlib
from dataclasses import dataclass, field

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
END64, LOCATOR64, DESCRIPTOR = b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08"
MOST32 = 0xFFFFFFFF


@dataclass(slots=True)
class Entry:
    """One file of an archive; what is None follows from the data."""

    name: bytes
    data: bytes
    local_name: bytes | None = None
    method: int = 0
    local_method: int | None = None
    flags: int = 0x0808
    """Sizes follow the data, and the name is UTF-8: what torch sets."""
    local_flags: int | None = None
    crc: int | None = None
    size: int | None = None
    """Of the data, as the central directory has it."""
    packed_size: int | None = None
    local_size: int = 0
    offset: int | None = None
    """Of the local header, as the central directory has it."""
    disk: int = 0
    made_by: int = 0
    attributes: int = 0
    comment: bytes = b""
    local_extra: bytes = b""
    extra: bytes = b""
    zip64: bool = False
    """Sizes and offset stand in the zip64 field of the central directory."""
    descriptor: bytes | None = None
    gap: bytes = b""
    """Bytes before the local header, which belong to no entry."""
    is_absent: bool = False
    """Only the central directory has it."""
    is_unlisted: bool = False
    """The central directory lacks it."""

    @property
    def packed(self) -> bytes:
        """The data as it is stored."""
        if self.method != 8:
            return self.data
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(self.data) + packer.flush()


@dataclass(slots=True)
class End:
    """What stands at the end of an archive; what is None follows from the entries."""

    comment: bytes = b""
    comment_length: int | None = None
    disk: int = 0
    count: int | None = None
    size: int | None = None
    offset: int | None = None
    has_zip64: bool = True
    zip64_offset: int | None = None
    zip64_count: int | None = None
    locator_disks: int = 1
    is_masked: bool = False
    """The plain fields say "see zip64"."""
    between: bytes = b""
    """Bytes between the central directory and the end."""
    before_directory: bytes = b""


@dataclass(slots=True)
class Archive:
    """The entries of an archive and its end."""

    entries: list[Entry]
    end: End = field(default_factory=End)
    prefix: bytes = b""
    suffix: bytes = b""
    is_shifted: bool = True
    """Offsets count from the start of the file; otherwise from the end of the prefix."""

    def write(self) -> bytes:
        """The bytes of the file."""
        body = bytearray(self.prefix)
        base = 0 if self.is_shifted else len(self.prefix)
        listed = bytearray()
        count = 0
        for entry in self.entries:
            body += entry.gap
            at = len(body) - base
            if not entry.is_absent:
                body += _local(entry)
            if not entry.is_unlisted:
                listed += _central(entry, at)
                count += 1
        body += self.end.before_directory
        start = len(body) - base
        body += listed + self.end.between
        body += _end(self.end, count, len(listed), start, len(body) - base)
        return bytes(body + self.suffix)


def _crc(entry: Entry) -> int:
    return zlib.crc32(entry.data) if entry.crc is None else entry.crc


def _local(entry: Entry) -> bytes:
    name = entry.name if entry.local_name is None else entry.local_name
    flags = entry.flags if entry.local_flags is None else entry.local_flags
    method = entry.method if entry.local_method is None else entry.local_method
    packed = entry.packed
    size, crc = (entry.local_size, 0) if flags & 8 else (len(packed), _crc(entry))
    plain = entry.local_size if flags & 8 else len(entry.data)
    head = struct.pack(
        "<HHHHHIIIHH", 0, flags, method, 0, 0, crc, size, plain, len(name), len(entry.local_extra)
    )
    tail = b""
    if flags & 8 and entry.data:
        tail = DESCRIPTOR + struct.pack("<III", _crc(entry), len(packed), len(entry.data))
    if entry.descriptor is not None:
        tail = entry.descriptor
    return LOCAL + head + name + entry.local_extra + packed + tail


def _central(entry: Entry, at: int) -> bytes:
    size = len(entry.data) if entry.size is None else entry.size
    packed = len(entry.packed) if entry.packed_size is None else entry.packed_size
    offset = at if entry.offset is None else entry.offset
    extra = entry.extra
    if entry.zip64:
        extra = struct.pack("<HHQQQ", 1, 24, size, packed, offset) + extra
        size = packed = offset = MOST32
    return (
        CENTRAL
        + struct.pack("<HHHHHHI", entry.made_by, 0, entry.flags, entry.method, 0, 0, _crc(entry))
        + struct.pack("<IIHHH", packed, size, len(entry.name), len(extra), len(entry.comment))
        + struct.pack("<HHII", entry.disk, 0, entry.attributes, offset)
        + entry.name
        + extra
        + entry.comment
    )


def _end(end: End, entries: int, length: int, start: int, at: int) -> bytes:
    count = entries if end.count is None else end.count
    size = length if end.size is None else end.size
    offset = start if end.offset is None else end.offset
    made = b""
    if end.has_zip64:
        count64 = count if end.zip64_count is None else end.zip64_count
        offset64 = offset if end.zip64_offset is None else end.zip64_offset
        made += END64 + struct.pack("<QHHII", 44, 0x031E, 45, end.disk, end.disk)
        made += struct.pack("<QQQQ", count64, count64, size, offset64)
        made += LOCATOR64 + struct.pack("<IQI", 0, at, end.locator_disks)
    if end.is_masked:
        count, size, offset = 0xFFFF, MOST32, MOST32
    length = len(end.comment) if end.comment_length is None else end.comment_length
    made += END + struct.pack("<HHHHIIH", end.disk, end.disk, count, count, size, offset, length)
    return made + end.comment
