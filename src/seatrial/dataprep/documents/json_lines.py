# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""JSON lines: one object per line.

Strict JSON, as orjson parses it; if a key occurs twice, the last value counts, as in Python. Blank
lines are skipped. The first line may start with a byte order mark.

simdjson parses the lines in place, which is twice as fast as splitting them. Its errors are less
specific, so orjson parses a block with anything unusual again, line by line, and its result counts.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import simdjson

from seatrial.dataprep.documents.batches import (
    LONGEST,
    LONGEST_DOMAIN,
    BadLine,
    BadLineReason,
    DocumentBatch,
    LineCount,
    LineLocation,
    excerpt,
)
from seatrial.dataprep.documents.decompression import Content
from seatrial.dataprep.tasks.task_list import SourceSettings

_BLOCK = 1 << 20
"""Bytes of lines that are parsed together; small enough for the processor's cache."""
_LONG = 8 << 20
"""From this size of a block in bytes, orjson parses the lines."""
_GROWTH = 64 << 20
"""Most bytes by which the buffer grows for a long line."""
_JSON_REASONS = {
    "surrogate in string": BadLineReason.SURROGATE,
    "depth limit": BadLineReason.TOO_DEEP,
}
"""Fragments of orjson's messages about valid UTF-8, with the reason they stand for."""
_BLANK = re.compile(rb"\n[ \t\r\v\f]*(?=\n)")
"""A blank line and the end of the line before it."""
_MARK = codecs.BOM_UTF8[0]
_NEWLINE = 0x0A


def read_json_lines(
    content: Content, address: str, source: SourceSettings, count: LineCount
) -> Iterator[DocumentBatch]:
    """Yield the documents of a file, one batch per block that contains the end of a line."""
    parser = _Parser(address, source, count)
    buffer = bytearray(_BLOCK)
    kept = skipped = 0
    while came := _filled(content, buffer, kept):
        size = kept + came
        count.lines += _newlines(buffer, kept, size)
        end = buffer.rfind(b"\n", kept, size) + 1
        kept = size
        if end:
            batch = parser.batch(buffer, end, skipped)
            skipped, kept = 0, size - end
            buffer[:kept] = buffer[end:size]
            if kept <= _BLOCK < len(buffer):
                # Free the memory of a long line before the line is tokenized.
                del buffer[_BLOCK:]
            yield batch
        elif skipped or size > LONGEST:
            # The line is too long: keep only its length.
            skipped, kept = skipped + size, 0
    if kept or skipped:
        count.lines += 1
        buffer[kept : kept + 1] = b"\n"
        yield parser.batch(buffer, kept + 1, skipped)


def _filled(content: Content, buffer: bytearray, kept: int) -> int:
    """Read into the buffer after the kept bytes; grow the buffer for a long line."""
    if kept + _BLOCK // 2 > len(buffer):
        buffer.extend(bytes(min(len(buffer), _GROWTH)))
    with memoryview(buffer) as view, view[kept:] as rest:
        return content.readinto(rest)


def _newlines(buffer: bytearray, begin: int, end: int) -> int:
    """Count the newlines in a part of a buffer, four times as fast as `bytearray.count`."""
    return int(np.count_nonzero(np.frombuffer(buffer, np.uint8, end - begin, begin) == _NEWLINE))


def _pick(content: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of keys; raise KeyError or TypeError if it is missing."""
    for key in path:
        content = content[key]
    return content


def _pick_once(content: Any, path: Sequence[str]) -> Any:
    """Like `_pick`, but reject duplicate keys, because simdjson returns the first value."""
    for key in path:
        if [*content].count(key) != 1:
            raise KeyError(key)
        content = content[key]
    return content


def _is_domain(value: Any) -> bool:
    return type(value) is str and len(value) <= LONGEST_DOMAIN


class _Parser:
    """Parses blocks of lines into documents, and counts the lines before each block."""

    def __init__(self, address: str, source: SourceSettings, count: LineCount) -> None:
        self._address = address
        self._text_path = source.text_field.split(".")
        self._domain_path = source.domain_field.split(".") if source.domain_field else None
        self._line = 1
        self._offset = 0
        self._simdjson = simdjson.Parser()
        self._count = count

    def batch(self, buffer: bytearray, size: int, skipped: int) -> DocumentBatch:
        """Parse the lines at the start of a buffer.

        Args:
            buffer: Holds the lines.
            size: Bytes of the lines; the last byte is a newline.
            skipped: Bytes of the first line that were dropped because it is too long, or 0.
        """
        starts: list[int] = []
        begin, line = self._offset, self._line

        def place(number: int) -> LineLocation:
            # The buffer holds only the end of a line that is too long.
            offset = begin + skipped + starts[number] if number else begin
            return LineLocation(self._address, line + number, offset)

        try:
            if skipped or size > _LONG:
                raise ValueError("not for simdjson")
            texts, domains = self._all_good(buffer, size, starts)
            batch = DocumentBatch(texts, domains, (), place)
        except (ValueError, KeyError, TypeError, RuntimeError):
            # Also for blank lines, which the fast path does not detect, and for long lines, because
            # simdjson never frees the memory that it allocates for one.
            batch = self._one_by_one(buffer, size, starts, place, bool(skipped))
            self._count.lines -= self._blank_lines(buffer, size, bool(skipped))
        self._line += len(starts)
        self._offset += skipped + size
        return batch

    def _all_good(
        self, buffer: bytearray, size: int, starts: list[int]
    ) -> tuple[list[str], list[str] | None]:
        """Parse the common case with little work per line; raise an error for anything else."""
        parse, find = self._simdjson.parse, buffer.find
        text_path, domain_path = self._text_path, self._domain_path
        field, plain = text_path[0], len(text_path) == 1
        texts: list[str] = []
        domains: list[str] | None = None if domain_path is None else []
        start = 0
        with memoryview(buffer) as view:
            while start < size:
                end = find(b"\n", start, size)
                # simdjson skips a byte order mark, which is valid only at the start of a file.
                if buffer[start] == _MARK:
                    raise ValueError
                content: Any = parse(view[start:end])
                # simdjson returns the first value of a duplicate key; the last one must count.
                if [*content].count(field) != 1:
                    raise KeyError(field)
                texts.append(content[field] if plain else _pick_once(content, text_path))
                if domains is not None and domain_path is not None:
                    domains.append(_pick_once(content, domain_path))
                del content
                starts.append(start)
                start = end + 1
        if {*map(type, texts)} - {str} or not all(map(_is_domain, domains or ())):
            raise TypeError
        return texts, domains

    def _one_by_one(
        self,
        buffer: bytearray,
        size: int,
        starts: list[int],
        place: Callable[[int], LineLocation],
        first_too_long: bool,
    ) -> DocumentBatch:
        """Parse lines that may be bad or blank."""
        texts: list[str] = []
        domains: list[str] | None = None if self._domain_path is None else []
        numbers: list[int] = []
        bad: list[BadLine] = []
        starts.clear()
        start = 0
        while start < size:
            end = buffer.find(b"\n", start, size)
            number = len(starts)
            too_long = end - start > LONGEST or (first_too_long and not number)
            line = b"" if too_long else bytes(memoryview(buffer)[start:end])
            starts.append(start)
            start = end + 1
            if self._line + number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            found = BadLineReason.TOO_LONG if too_long else self._document(line)
            if isinstance(found, BadLineReason):
                bad.append(BadLine(place(number), found, excerpt(line)))
            elif found is not None:
                texts.append(found[0])
                numbers.append(number)
                if domains is not None:
                    domains.append(found[1])
        return DocumentBatch(texts, domains, bad, lambda i: place(numbers[i]))

    def _blank_lines(self, buffer: bytearray, size: int, first_too_long: bool) -> int:
        """Count the blank lines in a buffer."""
        blank = sum(1 for _ in _BLANK.finditer(buffer, 0, size))
        end = buffer.find(b"\n", 0, size)
        if first_too_long or end > LONGEST:
            return blank
        first = bytes(memoryview(buffer)[:end])
        if self._line == 1:
            first = first.removeprefix(codecs.BOM_UTF8)
        return blank + (not first.strip())

    def _document(self, line: bytes) -> tuple[str, str] | BadLineReason | None:
        """Return text and domain of a line, or why it is bad; None for a blank line."""
        content = parse_object(line)
        if content is None or isinstance(content, BadLineReason):
            return content
        text = text_in(content, self._text_path)
        if isinstance(text, BadLineReason) or self._domain_path is None:
            return text if isinstance(text, BadLineReason) else (text, "")
        domain = domain_in(content, self._domain_path)
        return domain if isinstance(domain, BadLineReason) else (text, domain)


def parse_object(data: bytes) -> dict[str, Any] | BadLineReason | None:
    """Parse a JSON object; return why it is bad, or None if it is blank."""
    try:
        content = orjson.loads(data)
    except ValueError as error:
        return _json_reason(data, str(error)) if data.strip() else None
    return content if isinstance(content, dict) else BadLineReason.NOT_OBJECT


def text_in(content: dict[str, Any], path: Sequence[str]) -> str | BadLineReason:
    """Return the text at a path of keys, or why there is none."""
    try:
        text = _pick(content, path)
    except (KeyError, TypeError):
        return BadLineReason.NO_TEXT
    if not isinstance(text, str):
        return BadLineReason.NO_TEXT if text is None else BadLineReason.NOT_TEXT
    return text


def domain_in(content: dict[str, Any], path: Sequence[str]) -> str | BadLineReason:
    """Return the domain at a path of keys, or why there is none."""
    try:
        domain = _pick(content, path)
    except (KeyError, TypeError):
        return BadLineReason.NO_DOMAIN
    return domain if _is_domain(domain) else BadLineReason.NO_DOMAIN


def _json_reason(line: bytes, message: str) -> BadLineReason:
    try:
        line.decode()
    except UnicodeDecodeError:
        return BadLineReason.NOT_UTF8
    reasons = (reason for part, reason in _JSON_REASONS.items() if part in message)
    return next(reasons, BadLineReason.NOT_JSON)
