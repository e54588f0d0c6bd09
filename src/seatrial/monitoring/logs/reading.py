# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Events from a log, whoever wrote it: our own event log, or one of the engines."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from seatrial.monitoring.event_log import Event, decoded
from seatrial.monitoring.logs.parser import LogParser
from seatrial.spec.engine import ENGINE_CLASSES, engine_named

LONGEST_LINE = 2**16
"""Bytes of a line; of a longer one nothing is read, so that a file without lines costs nothing."""
_CHUNK = 2**20


class ByteStream(Protocol):
    """What bytes are read from: a file opened for reading bytes, or standard input's buffer."""

    def read1(self, size: int = -1, /) -> bytes:
        """What is there, at most so many bytes; empty at the end."""


class EventLogLines:
    """Reads our own event log, as lines of any stream."""

    marks = (b'"kind"',)
    """A line without one of these tells nothing."""
    is_open = False
    """Nothing ever goes on in the next line."""

    def feed(self, line: bytes) -> tuple[Event, ...]:
        event = decoded(line) if b'"kind"' in line else None
        return () if event is None else (event,)

    def close(self) -> tuple[Event, ...]:
        """Nothing is ever open."""
        return ()


class LogReader:
    """Reads a log without being told whose it is: whoever first finds an event keeps reading."""

    def __init__(self) -> None:
        """Begin with everyone."""
        engines = (engine_named(name).log_parser() for name in ENGINE_CLASSES)
        self._parsers: tuple[LogParser, ...] = (EventLogLines(), *engines)

    def feed(self, line: bytes) -> tuple[Event, ...]:
        """The events that a line completes; never an error."""
        for parser in self._parsers:
            events = parser.feed(line)
            if events:
                self._parsers = (parser,)
                return events
        return ()

    def feed_lines(self, lines: bytes) -> Iterator[Event]:
        """The events of whole lines; those without a mark are passed over without a look."""
        place = 0
        while len(self._parsers) > 1 and place < len(lines):
            end = lines.find(b"\n", place)
            end = len(lines) if end < 0 else end
            yield from self.feed(lines[place:end])
            place = end + 1
        if len(self._parsers) == 1:
            yield from _marked(self._parsers[0], lines, place)

    def close(self) -> tuple[Event, ...]:
        """The events that the end of the log completes."""
        for parser in self._parsers:
            events = parser.close()
            if events:
                return events
        return ()


def _marked(parser: LogParser, lines: bytes, place: int) -> Iterator[Event]:
    """The events of whole lines from a place on, going from mark to mark."""
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
    """The events of a log's lines, in order."""
    reader = LogReader()
    for line in lines:
        events = reader.feed(line)
        if events:
            yield from events
    yield from reader.close()


def read_stream(stream: ByteStream) -> Iterator[Event]:
    """The events of a file, a pipe or standard input, each as soon as its line is there."""
    reader = LogReader()
    for lines in whole_lines(stream):
        yield from reader.feed_lines(lines)
    yield from reader.close()


def whole_lines(stream: ByteStream) -> Iterator[bytes]:
    """What a stream has, cut after ends of lines; lines that are too long are left out."""
    cutter = LineCutter()
    while chunk := stream.read1(_CHUNK):
        if lines := cutter.feed(chunk):
            yield lines
    if cutter.rest:
        yield cutter.rest


class LineCutter:
    """Makes whole lines of pieces; lines that are too long are left out, to their end."""

    def __init__(self) -> None:
        """Begin at the beginning of a line."""
        self.rest = b""
        """The beginning of a line whose end has not come yet."""
        self._dropping = False

    def feed(self, piece: bytes) -> bytes:
        """Return the lines that a piece completes, with their ends."""
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
