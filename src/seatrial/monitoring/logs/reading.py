# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read events from any log: Seatrial's event log, or the log of an engine."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from seatrial.monitoring.event_log import Event, decoded
from seatrial.monitoring.logs.parser import LogParser
from seatrial.spec.engine import REGISTERED_ENGINES, engine_named

LONGEST_LINE = 2**16
"""Longer lines are skipped, so that a file without newlines costs no memory."""
_CHUNK = 2**20


class ByteStream(Protocol):
    """A source of bytes: a file opened in binary mode, or the buffer of standard input."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most `size`; empty at the end."""


class EventLogLines:
    """Parses the lines of Seatrial's event log."""

    marks = (b'"kind"',)
    is_open = False

    def feed(self, line: bytes) -> tuple[Event, ...]:
        event = decoded(line) if b'"kind"' in line else None
        return () if event is None else (event,)

    def close(self) -> tuple[Event, ...]:
        return ()


class LogReader:
    """Detects the format of a log: the first parser that finds an event reads the rest."""

    def __init__(self) -> None:
        """Start with all parsers."""
        engines = (engine_named(name).log_parser() for name in REGISTERED_ENGINES)
        self._parsers: tuple[LogParser, ...] = (EventLogLines(), *engines)

    def feed(self, line: bytes) -> tuple[Event, ...]:
        """Return the events that a line completes. Never raises."""
        for parser in self._parsers:
            events = parser.feed(line)
            if events:
                self._parsers = (parser,)
                return events
        return ()

    def feed_lines(self, lines: bytes) -> Iterator[Event]:
        """Yield the events of complete lines; skip lines without a mark quickly."""
        place = 0
        while len(self._parsers) > 1 and place < len(lines):
            end = lines.find(b"\n", place)
            end = len(lines) if end < 0 else end
            yield from self.feed(lines[place:end])
            place = end + 1
        if len(self._parsers) == 1:
            yield from _marked(self._parsers[0], lines, place)

    def close(self) -> tuple[Event, ...]:
        """Return the events that the end of the log completes."""
        for parser in self._parsers:
            events = parser.close()
            if events:
                return events
        return ()


def _marked(parser: LogParser, lines: bytes, place: int) -> Iterator[Event]:
    """Yield the events of complete lines from `place` on, jumping from mark to mark."""
    size = len(lines)
    ahead = dict.fromkeys(parser.marks, -1)
    while place < size:
        start = place
        if not parser.is_open:
            for mark, found in ahead.items():
                if found < place:
                    found = lines.find(mark, place)
                    ahead[mark] = size if found < 0 else found
            nearest = min(ahead.values())
            if nearest == size:
                return
            start = lines.rfind(b"\n", place, nearest) + 1 or place
            place = nearest
        end = lines.find(b"\n", place)
        end = size if end < 0 else end
        events = parser.feed(lines[start:end])
        if events:
            yield from events
        place = end + 1


def read_log(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a log's lines, in order."""
    reader = LogReader()
    for line in lines:
        events = reader.feed(line)
        if events:
            yield from events
    yield from reader.close()


def read_stream(stream: ByteStream) -> Iterator[Event]:
    """Yield the events of a file, a pipe or standard input, as soon as each line is complete."""
    reader = LogReader()
    for lines in whole_lines(stream):
        yield from reader.feed_lines(lines)
    yield from reader.close()


def whole_lines(stream: ByteStream) -> Iterator[bytes]:
    """Yield blocks of complete lines; skip lines that are too long."""
    cutter = LineCutter()
    while chunk := stream.read1(_CHUNK):
        if lines := cutter.feed(chunk):
            yield lines
    if cutter.rest:
        yield cutter.rest


class LineCutter:
    """Assembles chunks into complete lines; drops lines that are too long."""

    def __init__(self) -> None:
        self.rest = b""
        """The start of an incomplete line."""
        self._dropping = False

    def feed(self, piece: bytes) -> bytes:
        """Return the lines that a chunk completes, with their newlines."""
        end = piece.rfind(b"\n") + 1
        lines = b""
        if end:
            start = piece.find(b"\n") + 1 if self._dropping else 0
            self._dropping = False
            lines = self.rest + piece[start:end]
            self.rest = piece[end:]
        elif not self._dropping:
            self.rest += piece
        if len(self.rest) > LONGEST_LINE:
            self.rest, self._dropping = b"", True
        return lines
