# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plain text: one document per file, per line, or per paragraph."""

import codecs
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from seatrial.dataprep.documents.batches import (
    LONGEST,
    BadLine,
    BadLineReason,
    DocumentBatch,
    LineCount,
    LineLocation,
    excerpt,
)
from seatrial.dataprep.documents.decompression import Content
from seatrial.dataprep.tasks.task_list import InputFormat, SourceSettings

_PIECE = 1 << 20
"""Bytes of text per read, and approximate size of a batch."""


class RawText(NamedTuple):
    """The bytes of a text, and where they start."""

    line: int
    """Line of its first byte, counted from 1."""
    offset: int
    """Bytes before it."""
    data: bytes | None
    """None if it is too long."""


class BatchBuilder:
    """Collects documents and bad lines one by one."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._domains: list[str] | None = None
        self._bad: list[BadLine] = []
        self._places: list[LineLocation] = []
        self._size = 0

    def add(
        self, place: LineLocation, text: str | BadLineReason, domain: str | None, shown: str = ""
    ) -> None:
        """Add a document, or a bad line if the text is a reason."""
        if isinstance(text, BadLineReason):
            self._bad.append(BadLine(place, text, shown))
            return
        self._texts.append(text)
        self._places.append(place)
        self._size += len(text)
        if domain is not None:
            self._domains = self._domains or []
            self._domains.append(domain)

    @property
    def is_full(self) -> bool:
        """True if there is enough text for a batch."""
        return self._size >= _PIECE

    def take(self) -> Iterator[DocumentBatch]:
        """Yield the collected documents as one batch, if there are any, and start again."""
        if self._texts or self._bad:
            batch = DocumentBatch(self._texts, self._domains, self._bad, self._places.__getitem__)
            self._texts, self._domains, self._bad, self._places = [], None, [], []
            self._size = 0
            yield batch


def read_whole(content: Content) -> bytes | None:
    """Read a text to its end; None if it is too long."""
    data = bytearray()
    size = 0
    with memoryview(bytearray(_PIECE)) as piece:
        while count := content.readinto(piece):
            size += count
            # Read a text that is too long to its end, to detect a damaged stream.
            if size <= LONGEST:
                data += piece[:count]
            else:
                data.clear()
    return bytes(data) if size <= LONGEST else None


def add_text(builder: BatchBuilder, address: str, raw: RawText, domain: str | None) -> None:
    """Decode a text and add it, or add it as a bad line."""
    place = LineLocation(address, raw.line, raw.offset)
    if raw.data is None:
        builder.add(place, BadLineReason.TOO_LONG, None)
        return
    data = raw.data.removeprefix(codecs.BOM_UTF8) if raw.offset == 0 else raw.data
    try:
        builder.add(place, data.decode(), domain)
    except UnicodeDecodeError as error:
        at = error.start + len(raw.data) - len(data)
        where = LineLocation(address, raw.line, raw.offset + at)
        builder.add(where, BadLineReason.NOT_UTF8, None, excerpt(raw.data[at : at + 100]))


def read_text(
    content: Content, address: str, format_: InputFormat, source: SourceSettings, count: LineCount
) -> Iterator[DocumentBatch]:
    """Yield the documents of a text file; blank lines are not documents."""
    builder = BatchBuilder()
    for raw in _raw_texts(content, format_):
        count.lines += 1
        if source.domain_field is not None and raw.data is not None:
            place = LineLocation(address, raw.line, raw.offset)
            builder.add(place, BadLineReason.NO_DOMAIN, None)
        else:
            add_text(builder, address, raw, None)
        if builder.is_full:
            yield from builder.take()
    yield from builder.take()


def _raw_texts(content: Content, format_: InputFormat) -> Iterable[RawText]:
    match format_:
        case InputFormat.TEXT_LINES:
            return (raw for raw in _lines(content) if not _is_blank(raw))
        case InputFormat.TEXT_PARAGRAPHS:
            return _paragraphs(content)
        case _:
            return [RawText(1, 0, read_whole(content))]


def _is_blank(raw: RawText) -> bool:
    return raw.data is not None and not raw.data.removeprefix(codecs.BOM_UTF8).strip()


def _lines(content: Content) -> Iterator[RawText]:
    """Yield the lines of a text without their line breaks."""
    held = bytearray()
    size = offset = 0
    number = 1
    with memoryview(bytearray(_PIECE)) as piece:
        while count := content.readinto(piece):
            *ended, rest = bytes(piece[:count]).split(b"\n")
            for part in ended:
                size += len(part)
                line = bytes(held) + part if size <= LONGEST else None
                yield RawText(number, offset, line.removesuffix(b"\r") if line else line)
                offset += size + 1
                number, size = number + 1, 0
                held.clear()
            size += len(rest)
            held += rest
            if size > LONGEST:
                # The line is too long: keep only its length.
                held.clear()
    if size:
        line = bytes(held) if size <= LONGEST else None
        yield RawText(number, offset, line.removesuffix(b"\r") if line else line)


def _paragraphs(content: Content) -> Iterator[RawText]:
    """Yield blocks of lines that blank lines separate."""
    lines: list[bytes] = []
    first: RawText | None = None
    size = 0
    for raw in _lines(content):
        if _is_blank(raw):
            if first is not None:
                yield _paragraph(first, lines, size)
            first, lines, size = None, [], 0
            continue
        first = first or raw
        size += LONGEST + 1 if raw.data is None else len(raw.data) + 1
        if size <= LONGEST and raw.data is not None:
            lines.append(raw.data)
        else:
            lines.clear()
    if first is not None:
        yield _paragraph(first, lines, size)


def _paragraph(first: RawText, lines: list[bytes], size: int) -> RawText:
    return RawText(first.line, first.offset, b"\n".join(lines) if size <= LONGEST else None)
