# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read an event log while it grows."""

from pathlib import Path

from seatrial.storage.state_files import open_regular

PIECE = 1 << 20
"""Bytes per read, so that a long log is never completely in memory."""


class Tail:
    """Reads complete lines that were appended to a file since the last call."""

    def __init__(self, path: Path) -> None:
        """Read from a file, which need not exist yet."""
        self._path = path
        self._offset = 0
        self._rest = b""

    def shrunk(self) -> bool:
        """True if the file was replaced. It is then read from the start."""
        try:
            smaller = self._path.stat().st_size < self._offset
        except OSError:
            return False
        if smaller:
            self._offset, self._rest = 0, b""
        return smaller

    def lines(self) -> list[bytes]:
        """Return the next lines; empty at the end of the file, or if it is not readable."""
        try:
            with open_regular(self._path) as stream:
                stream.seek(self._offset)
                piece = stream.read(PIECE)
        except OSError:
            return []
        self._offset += len(piece)
        *whole, self._rest = (self._rest + piece).split(b"\n")
        # A piece without a newline is not the end of the file.
        return whole or ([b""] if piece else [])
