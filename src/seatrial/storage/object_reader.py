# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read an object in ranges, and request a range again if it was truncated."""

import io
from collections.abc import Buffer, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

from seatrial.storage.providers import ObjectFiles
from seatrial.storage.retries import CutShortError

RANGE = 8 << 20
"""Bytes per request; a stream that is read sequentially keeps two such ranges in memory."""


class RangeReader(io.RawIOBase):
    """A file of known size, fetched in ranges; prefetches the next range while you read."""

    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        start: int = 0,
        verify: Callable[[], None] = lambda: None,
    ) -> None:
        """Read a file.

        Args:
            fetch: Returns the bytes between two offsets; the end is exclusive.
            size: Size of the file in bytes.
            start: First offset to read.
            verify: Called after the last range, and on close if more ranges followed. Raises an
                error if the file has changed since it was opened.
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
        """Return the offset of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Continue at a different offset. Sends no request."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer from the current range."""
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
        """Fetch the range at the position. Prefetch the next range if reads are sequential."""
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
        """Close the stream."""
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
    """Open a stream to an object."""
    full = place.full(path)

    def fetch(begin: int, end: int) -> bytes:
        def once() -> bytes:
            data: bytes = place.files.cat_file(full, start=begin, end=end)
            if len(data) < end - begin:
                raise CutShortError(f"received {len(data):,} of {end - begin:,} bytes")
            return data

        return place.call(path, once)

    return io.BufferedReader(RangeReader(fetch, size, start, verify), 1 << 20)
