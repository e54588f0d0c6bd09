# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reading an event log while it grows."""

from pathlib import Path

from seatrial.storage.state_files import open_regular

PIECE = 1 << 20
"""Bytes read at a time, so that a long history is not in memory at once."""


class Tail:
    """Reads what was appended to a file since the last look, in whole lines."""

    def __init__(self, path: Path) -> None:
        """The file need not be there yet."""
        self._path = path
        self._offset = 0
        self._rest = b""

    def shrunk(self) -> bool:
        """Whether the file is another one now, which is then read from its beginning."""
        try:
            smaller = self._path.stat().st_size < self._offset
        except OSError:
            return False
        if smaller:
            self._offset, self._rest = 0, b""
        return smaller

    def lines(self) -> list[bytes]:
        """The next lines; none at the end, or while the file cannot be read."""
        try:
            with open_regular(self._path) as stream:
                stream.seek(self._offset)
                piece = stream.read(PIECE)
        except OSError:
            return []
        self._offset += len(piece)
        *whole, self._rest = (self._rest + piece).split(b"\n")
        # A piece without an end of line is not the end of the file.
        return whole or ([b""] if piece else [])
