# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reading that can be stopped: who presses Ctrl-C does not wait for the end of files of 10 GB."""

import io
import threading
from collections.abc import Buffer
from typing import BinaryIO, Protocol, cast


class Readable(Protocol):
    """What checks need of a store."""

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """A stream from an offset on."""


class StoppedError(Exception):
    """The reading was stopped; what it would have found does not matter any more."""


class Stoppable:
    """A store whose streams end in StoppedError, at their next block, once they are to stop."""

    def __init__(self, store: Readable) -> None:
        """Read from a store."""
        self._store = store
        self._stop = threading.Event()

    def stop(self) -> None:
        """End all reading."""
        self._stop.set()

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """A stream from an offset on."""
        return cast(BinaryIO, _Stream(self._store.open_reader(path, start), self._stop))


class _Stream(io.RawIOBase):
    """A stream that looks before each block whether it is to stop."""

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
