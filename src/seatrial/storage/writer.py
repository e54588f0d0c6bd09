# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The stream into a new file of a store: the whole file appears at its close, or none."""

import io
from abc import ABC, abstractmethod
from collections.abc import Buffer
from types import TracebackType
from typing import BinaryIO


class Sink(ABC):
    """What a writer fills; either `commit` or `abort` ends it."""

    @abstractmethod
    def write(self, data: Buffer) -> int:
        """Take all of the bytes."""

    def fileno(self) -> int:
        """The number of the open file, so that the kernel can copy into it; an error elsewhere."""
        raise io.UnsupportedOperation("fileno")

    @abstractmethod
    def commit(self) -> None:
        """Make the file appear."""

    @abstractmethod
    def abort(self) -> None:
        """Leave nothing."""


class StoreWriter(io.BufferedIOBase, BinaryIO):
    """A stream whose file appears when it is closed, unless an error came first.

    Python closes a stream that goes out of scope, and files of fsspec commit when a `with` block
    is left by an error: both would make half a file count. Here both abort.
    """

    def __init__(self, sink: Sink) -> None:
        """Write into a sink."""
        self._sink: Sink | None = sink
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        """Take all of the bytes; an error ends the stream and leaves no file."""
        if self._sink is None:
            raise ValueError("write to a closed stream")
        try:
            count = self._sink.write(data)
        except BaseException:
            self.abort()
            raise
        self._written += count
        return count

    def fileno(self) -> int:
        """The number of the open file, so that the kernel can copy into it; an error elsewhere."""
        if self._sink is None:
            raise ValueError("a closed stream")
        return self._sink.fileno()

    def tell(self) -> int:
        """Bytes written so far, without those that the kernel copied."""
        return self._written

    def close(self) -> None:
        """Make the file appear; nothing when the stream has ended already."""
        sink, self._sink = self._sink, None
        if sink is None:
            return
        try:
            sink.commit()
        except BaseException:
            sink.abort()
            raise
        finally:
            super().close()

    def abort(self) -> None:
        """End the stream and leave no file."""
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.abort()
            finally:
                super().close()

    def __enter__(self) -> "StoreWriter":
        """The stream itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stream, or abort it when the block was left by an error."""
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """A stream that was forgotten is aborted, and not closed as Python would."""
        if getattr(self, "_sink", None) is not None:
            self.abort()
