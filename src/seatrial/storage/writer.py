# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A stream to a new file in a store: either the complete file appears on close, or no file."""

import io
from abc import ABC, abstractmethod
from collections.abc import Buffer
from types import TracebackType
from typing import BinaryIO


class Sink(ABC):
    """The target of a writer; call `commit` or `abort` at the end."""

    @abstractmethod
    def write(self, data: Buffer) -> int:
        """Write all bytes."""

    def fileno(self) -> int:
        """Return the file descriptor for kernel copies. Raises UnsupportedOperation if none."""
        raise io.UnsupportedOperation("fileno")

    @abstractmethod
    def commit(self) -> None:
        """Make the file visible."""

    @abstractmethod
    def abort(self) -> None:
        """Discard the file."""


class StoreWriter(io.BufferedIOBase, BinaryIO):
    """A stream whose file appears on close, unless an error occurred.

    Python closes a stream that goes out of scope, and fsspec files commit if an exception leaves a
    `with` block: both would publish a partial file. This class aborts in both cases.
    """

    def __init__(self, sink: Sink) -> None:
        """Write to a sink."""
        self._sink: Sink | None = sink
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        """Write all bytes. An error aborts the stream and leaves no file."""
        if self._sink is None:
            raise ValueError("cannot write to a closed stream")
        try:
            count = self._sink.write(data)
        except BaseException:
            self.abort()
            raise
        self._written += count
        return count

    def fileno(self) -> int:
        """Return the file descriptor for kernel copies. Raises UnsupportedOperation if none."""
        if self._sink is None:
            raise ValueError("the stream is closed")
        return self._sink.fileno()

    def tell(self) -> int:
        """Return the number of bytes written, without bytes that the kernel copied."""
        return self._written

    def close(self) -> None:
        """Make the file visible. Does nothing if the stream is already closed or aborted."""
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
        """Abort the stream and leave no file."""
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.abort()
            finally:
                super().close()

    def __enter__(self) -> "StoreWriter":
        """Return the stream."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stream, or abort it after an exception."""
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """Abort a stream that was dropped, because Python would close it."""
        if getattr(self, "_sink", None) is not None:
            self.abort()
