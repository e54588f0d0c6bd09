# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sources of events: growing files, a pipe, the logs of pods, and a run's volume."""

import itertools
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile

from seatrial.errors import SeatrialError, UsageError
from seatrial.monitoring.event_log import Event, EventKind, decoded
from seatrial.monitoring.logs.reading import (
    ByteStream,
    LineCutter,
    LogReader,
    read_stream,
    whole_lines,
)
from seatrial.runs.history.logs import RankLine
from seatrial.storage.state_files import open_regular, parse_json

PAUSE_SECONDS = 0.25
"""How often to poll a file that may grow."""
READER_PAUSES = (5.0, 60.0)
"""The first and the longest pause in seconds before another reader starts."""
KILLED = 128
"""Exit codes from this value up mean that a signal killed the process."""
_CHUNK = 2**20

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file: an event log, or the output of an engine."""

    path: Path
    """When followed, it may not exist yet."""
    sleep: Sleep = time.sleep

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """Yield the events in order. When followed, None means that there is no new event yet."""
        try:
            if not follow:
                if self.path.exists():
                    with open_regular(self.path) as stream:
                        yield from read_stream(stream)
                return
            while True:
                while not self.path.exists():
                    yield None
                    self.sleep(PAUSE_SECONDS)
                with open_regular(self.path) as stream:
                    yield from self._followed(stream)
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}.") from None

    def _followed(self, stream: BufferedReader) -> Iterator[Event | None]:
        """Yield events until the file is truncated or replaced."""
        reader, cutter = LogReader(), LineCutter()
        while True:
            piece = stream.read1(_CHUNK)
            if not piece:
                if self._is_another(stream):
                    return
                yield None
                self.sleep(PAUSE_SECONDS)
                continue
            if lines := cutter.feed(piece):
                yield from reader.feed_lines(lines)

    def _is_another(self, stream: BufferedReader) -> bool:
        """True if the file was truncated, or replaced as logrotate does."""
        try:
            there = self.path.stat()
        except OSError:
            # It may be replaced soon, or be deleted. The open file can still grow.
            return False
        known = os.fstat(stream.fileno())
        same = (there.st_dev, there.st_ino) == (known.st_dev, known.st_ino)
        return not same or there.st_size < stream.tell()


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A pipe, which can be read only once."""

    stream: ByteStream
    """Such as standard input."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the stream."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """Yield the events as they arrive, until the end of the pipe."""
        if not follow:
            yield from read_stream(self.stream)
            return
        # A pipe cannot be polled, so a thread waits for it.
        yield from _pumped(lambda: read_stream(self.stream), self.over)


class PutAside:
    """A pipe that is buffered completely, so that it can be read again, also as text."""

    def __init__(self, stream: ByteStream) -> None:
        """Read the pipe to its end."""
        self._file = TemporaryFile(prefix="seatrial-")  # noqa: SIM115  (closed with this object)
        weakref.finalize(self, self._file.close)
        for lines in whole_lines(stream):
            self._file.write(lines)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines without line endings."""
        self._file.seek(0)
        for lines in whole_lines(self._file):
            yield from lines.rstrip(b"\n").split(b"\n")

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """Yield the events in order. There is nothing to follow."""
        self._file.seek(0)
        yield from read_stream(self._file)


@dataclass(frozen=True, slots=True)
class PodSource:
    """The logs of a run's pods, parsed as engine output."""

    read: Callable[[bool], Iterator[RankLine]]
    """Returns the lines of the newest attempt. The argument is True to follow them."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        if follow:
            yield from _pumped(lambda: self._read(follow=True))
        else:
            yield from self._read(follow=False)

    def _read(self, *, follow: bool) -> Iterator[Event]:
        reader = LogReader()
        for line in self.read(follow):
            yield from reader.feed(line_bytes(line))
        yield from reader.close()


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """The event log on a run's volume, read by a pod that mounts it."""

    read: Callable[[bool, Callable[[str], None]], int]
    """Runs the reader and returns its exit code. The arguments are `follow` and the line
    callback."""
    is_live: Callable[[], bool]
    """Returns True while the run is active."""
    sleep: Sleep = time.sleep
    trouble: list[str] = field(default_factory=list)
    """Output of the reader that is not an event."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """Yield the events as the reader prints them.

        When followed, a new reader takes over if one exits while the run is active. When the run
        finishes, the reader may not have started, so the remaining events are read once more.
        """
        told, newest, pause = 0, None, READER_PAUSES[0]
        while follow:
            seen, before = 0, told
            for event in _pumped(lambda: self._read(follow=True)):
                if event is None and not self.is_live():
                    break
                # Each reader starts with the first event.
                seen += event is not None
                if event is None or seen > told:
                    told, newest = max(told, seen), event or newest
                    yield event
            if not self.is_live():
                break
            pause = READER_PAUSES[0] if told > before else min(2 * pause, READER_PAUSES[1])
            yield from self._waiting(pause)
        if newest is None or newest.kind is not EventKind.EXIT:
            yield from itertools.islice(self._read(follow=False), told, None)

    def _waiting(self, seconds: float) -> Iterator[None]:
        """Yield None for a while, at most until the run finishes."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.is_live():
            yield None
            self.sleep(PAUSE_SECONDS)

    def _read(self, *, follow: bool) -> Iterator[Event]:
        arrived: queue.Queue[str | int | SeatrialError] = queue.Queue(100_000)
        self.trouble.clear()

        def pump() -> None:
            try:
                arrived.put(self.read(follow, arrived.put))
            except SeatrialError as error:
                arrived.put(error)

        threading.Thread(target=pump, daemon=True).start()
        while True:
            item = arrived.get()
            if isinstance(item, SeatrialError):
                raise item
            if isinstance(item, int):
                # A reader that was killed proves nothing about the volume. Another can take over.
                if item and item < KILLED and self.trouble:
                    raise UsageError(f"cannot read the run's volume: {_reason(self.trouble)}")
                return
            event = decoded(item)
            if event is not None:
                yield event
            elif item.strip():
                self.trouble[:] = [*self.trouble[-20:], item]


def _reason(said: list[str]) -> str:
    """Return why a command failed: the error that it printed, or its last line."""
    try:
        return str(parse_json("\n".join(said))["error"])
    except (ValueError, KeyError, TypeError):
        return said[-1]


def _pumped(
    read: Callable[[], Iterator[Event]], over: threading.Event | None = None
) -> Iterator[Event | None]:
    """Yield events from a thread, and None while there is no new one."""
    arrived: queue.Queue[Event | SeatrialError] = queue.Queue(100_000)
    done = over or threading.Event()

    def pump() -> None:
        try:
            for event in read():
                arrived.put(event)
        except SeatrialError as error:
            arrived.put(error)
        finally:
            done.set()

    # A thread that waits for a server must not block the exit of the command.
    threading.Thread(target=pump, daemon=True).start()
    yield from _until_done(arrived, done)


def _until_done(
    arrived: "queue.Queue[Event | SeatrialError]", done: threading.Event
) -> Iterator[Event | None]:
    while True:
        finished = done.is_set()
        try:
            item = arrived.get(timeout=PAUSE_SECONDS)
        except queue.Empty:
            if finished:
                return
            yield None
            continue
        if isinstance(item, SeatrialError):
            raise item
        yield item


def line_bytes(line: RankLine) -> bytes:
    """Format a pod's line for the log parsers, prefixed with its time and rank."""
    owner = f"[rank{line.rank}]:" if line.rank is not None else f"[pod/node-{line.node}] "
    # A pod's time is in UTC, but has no zone.
    when = f"{line.time.removesuffix('Z')}Z " if line.time else ""
    return f"{when}{owner}{line.text}".encode()


def file_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file. Empty if it does not exist."""
    try:
        with open_regular(path) as stream:
            for lines in whole_lines(stream):
                yield from lines.rstrip(b"\n").split(b"\n")
    except OSError:
        return
