# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A stream from an object store, in ranges: one that was cut short is asked for again."""

import io
from collections.abc import Buffer, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

from seatrial.storage.providers import ObjectFiles
from seatrial.storage.retries import CutShortError

RANGE = 8 << 20
"""Bytes of one request; two such ranges are held by a stream that is read in order."""


class RangeReader(io.RawIOBase):
    """A file of known size, fetched in ranges, the next one while the last is being read."""

    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        start: int = 0,
        verify: Callable[[], None] = lambda: None,
    ) -> None:
        """Read a file.

        Args:
            fetch: Gives the bytes from one offset to before another.
            size: Bytes of the file.
            start: Where to begin.
            verify: Called after the last range, and at the close if ranges came after that;
                raises when the file is no longer the one that was opened.
        """
        self._fetch = fetch
        self._size = size
        self._position = start
        self._verify = verify
        self._unverified = False
        self._held = (0, memoryview(b""))
        self._ahead: tuple[int, Future[bytes]] | None = None
        self._fetcher: ThreadPoolExecutor | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go on from another offset; nothing is fetched for it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer as far as the range at hand goes."""
        if self._position >= self._size:
            return 0
        begin, data = self._held
        if not begin <= self._position < begin + len(data):
            begin, data = self._held = self._next(follows=self._position == begin + len(data))
        view = memoryview(buffer).cast("B")
        offset = self._position - begin
        count = min(len(view), len(data) - offset)
        view[:count] = data[offset : offset + count]
        self._position += count
        return count

    def _next(self, follows: bool) -> tuple[int, memoryview]:
        """The range at the position, and in a stream that is read in order the one after it."""
        begin = self._position
        end = min(begin + RANGE, self._size)
        self._unverified = True
        if self._ahead is not None and self._ahead[0] == begin:
            data = self._ahead[1].result()
        else:
            data = self._fetch(begin, end)
        self._ahead = None
        if end == self._size:
            self._verify()
            self._unverified = False
        elif follows:
            if self._fetcher is None:
                self._fetcher = ThreadPoolExecutor(1, "read-ahead")
            after = min(end + RANGE, self._size)
            self._ahead = (end, self._fetcher.submit(self._fetch, end, after))
        return begin, memoryview(data)

    def close(self) -> None:
        """End the stream."""
        if self.closed:
            return
        try:
            if self._fetcher is not None:
                self._fetcher.shutdown(wait=False, cancel_futures=True)
            if self._unverified:
                self._verify()
        finally:
            self._held = (0, memoryview(b""))
            super().close()


def open_range_reader(
    place: ObjectFiles,
    path: str,
    size: int,
    start: int = 0,
    verify: Callable[[], None] = lambda: None,
) -> BinaryIO:
    """A stream from a file of an object store."""
    full = place.full(path)

    def fetch(begin: int, end: int) -> bytes:
        def once() -> bytes:
            data: bytes = place.files.cat_file(full, start=begin, end=end)
            if len(data) < end - begin:
                raise CutShortError(f"{len(data):,} of {end - begin:,} bytes came")
            return data

        return place.call(path, once)

    return io.BufferedReader(RangeReader(fetch, size, start, verify), 1 << 20)
