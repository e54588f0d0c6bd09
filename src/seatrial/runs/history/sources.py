# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where events are read from: files that may grow, a pipe, the logs of pods, a run's volume."""

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
"""How often a file that may grow is looked at."""
READER_PAUSES = (5.0, 60.0)
"""How long it is waited before another reader is started: the first time, and at most."""
KILLED = 128
"""From this exit code on a process has ended by a signal."""
_CHUNK = 2**20

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file: an event log, or what an engine printed."""

    path: Path
    """The file; followed, it need not be there yet."""
    sleep: Sleep = time.sleep

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """The events in order; followed, nothing stands for a moment without news."""
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
            raise UsageError(f"{self.path} cannot be read: {error.strerror}.") from None

    def _followed(self, stream: BufferedReader) -> Iterator[Event | None]:
        """The events until the file is cut or another one has its name."""
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
        """Whether a file that was read to its end has been cut, or replaced as logrotate does."""
        try:
            there = self.path.stat()
        except OSError:
            # Between two files, or gone for good: what is open can still grow.
            return False
        known = os.fstat(stream.fileno())
        same = (there.st_dev, there.st_ino) == (known.st_dev, known.st_ino)
        return not same or there.st_size < stream.tell()


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A pipe, which can be read once."""

    stream: ByteStream
    """Standard input, for one."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set once its end was read."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """The events as they come, to the end of the pipe."""
        if not follow:
            yield from read_stream(self.stream)
            return
        # A pipe cannot be asked whether there is more: a thread waits for it.
        yield from _pumped(lambda: read_stream(self.stream), self.over)


class PutAside:
    """A pipe that was read to its end, so that it can be gone through again, as text too."""

    def __init__(self, stream: ByteStream) -> None:
        """Read the pipe to its end."""
        self._file = TemporaryFile(prefix="seatrial-")  # noqa: SIM115  (closed with this object)
        weakref.finalize(self, self._file.close)
        for lines in whole_lines(stream):
            self._file.write(lines)

    def lines(self) -> Iterator[bytes]:
        """The lines, without their ends."""
        self._file.seek(0)
        for lines in whole_lines(self._file):
            yield from lines.rstrip(b"\n").split(b"\n")

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """The events in order; there is nothing to follow."""
        self._file.seek(0)
        yield from read_stream(self._file)


@dataclass(frozen=True, slots=True)
class PodSource:
    """What the pods of a run print, in which an engine's lines are found."""

    read: Callable[[bool], Iterator[RankLine]]
    """The lines of the newest attempt; told whether they are followed."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """The events in order."""
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
    """The event log on a run's volume, read by a pod beside it."""

    read: Callable[[bool, Callable[[str], None]], int]
    """Runs the reader and gives back its exit code; told whether to follow, and whom to tell."""
    is_live: Callable[[], bool]
    """Whether the run goes on."""
    sleep: Sleep = time.sleep
    trouble: list[str] = field(default_factory=list)
    """What the reader said that is no event."""

    def events(self, *, follow: bool = False) -> Iterator[Event | None]:
        """The events as the reader prints them.

        Followed, another reader takes over from one that has ended while the run goes on. When the
        run is over, the reader may not even have started: what it has not told is read once more.
        """
        told, newest, pause = 0, None, READER_PAUSES[0]
        while follow:
            seen, before = 0, told
            for event in _pumped(lambda: self._read(follow=True)):
                if event is None and not self.is_live():
                    break
                # Each reader begins with the first event.
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
        """Nothing, for a while; not longer than the run goes on."""
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
                # One that was killed has said nothing of the volume; another can take over.
                if item and item < KILLED and self.trouble:
                    raise UsageError(f"the run's volume cannot be read: {_reason(self.trouble)}")
                return
            event = decoded(item)
            if event is not None:
                yield event
            elif item.strip():
                self.trouble[:] = [*self.trouble[-20:], item]


def _reason(said: list[str]) -> str:
    """Why a command has failed, by what it printed: its own error, or the last line."""
    try:
        return str(parse_json("\n".join(said))["error"])
    except (ValueError, KeyError, TypeError):
        return said[-1]


def _pumped(
    read: Callable[[], Iterator[Event]], over: threading.Event | None = None
) -> Iterator[Event | None]:
    """Events from a thread, with nothing in between when none has come."""
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

    # A thread that waits for a server must not keep the command from ending.
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
    """A line of a pod as the parsers of logs take it: with its time and its rank before it."""
    owner = f"[rank{line.rank}]:" if line.rank is not None else f"[pod/node-{line.node}] "
    # A pod's time is UTC without saying so.
    when = f"{line.time.removesuffix('Z')}Z " if line.time else ""
    return f"{when}{owner}{line.text}".encode()


def file_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; of one that is gone there are none."""
    try:
        with open_regular(path) as stream:
            for lines in whole_lines(stream):
                yield from lines.rstrip(b"\n").split(b"\n")
    except OSError:
        return
