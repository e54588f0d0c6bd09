# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Interruptible reading, so that Ctrl-C does not wait for the end of a 10 GB file."""

import io
import threading
from collections.abc import Buffer
from typing import BinaryIO, Protocol, cast


class Readable(Protocol):
    """The part of a store that checks need."""

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """Open a stream at an offset."""


class StoppedError(Exception):
    """Reading was stopped; its results are no longer needed."""


class Stoppable:
    """A store whose streams raise StoppedError at the next block after `stop`."""

    def __init__(self, store: Readable) -> None:
        """Read from a store."""
        self._store = store
        self._stop = threading.Event()

    def stop(self) -> None:
        """Stop all reading."""
        self._stop.set()

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """Open a stream at an offset."""
        return cast(BinaryIO, _Stream(self._store.open_reader(path, start), self._stop))


class _Stream(io.RawIOBase):
    """A stream that checks before each block if it should stop."""

    def __init__(self, stream: BinaryIO, stop: threading.Event) -> None:
        self._stream, self._stop = stream, stop

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        if self._stop.is_set():
            raise StoppedError
        count: int = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
