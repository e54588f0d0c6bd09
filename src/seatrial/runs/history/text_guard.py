# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Logs that are no text, which would otherwise be taken for logs that tell nothing."""

import codecs

from seatrial.errors import UsageError
from seatrial.monitoring.logs.reading import ByteStream

BEGINNING = 2**16
"""Bytes at the beginning that are looked at."""
MOST_ODD = 0.3
"""Share of characters that are none, or control a terminal. Of random bytes it is 0.54, of English
in UTF-16 0.5, of a French sentence in Latin-1 0.16."""
_PACKED = {
    b"\x1f\x8b": ("gzip", "gunzip it first"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd it first"),
    b"BZh": ("bzip2", "bunzip2 it first"),
    b"\xfd7zXZ": ("xz", "unxz it first"),
}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_KEPT = "\t\n\r\f\b\x1b"
"""Controls that logs have: line ends, progress bars, colours."""


def refuse_no_text(name: str, beginning: bytes) -> None:
    """Refuse a log by its first bytes, with what makes text of it."""
    for magic, (kind, do) in _PACKED.items():
        if beginning.startswith(magic):
            raise UsageError(f"{name} is no text but {kind}: {do}.")
    # A log that was cut while its writer went on begins with a hole, which is read as zeros.
    characters = beginning.lstrip(b"\0").decode("utf-8", "replace")
    odd = sum(c == "\ufffd" or (c < " " and c not in _KEPT) for c in characters)
    if beginning.startswith(_WIDE) or odd > MOST_ODD * len(characters):
        raise UsageError(
            f"{name} is no text in UTF-8. If it is UTF-16, convert it first: "
            "iconv -f UTF-16 -t UTF-8."
        )


class OnlyText:
    """A stream that is refused at its first read where it is no text."""

    def __init__(self, stream: ByteStream, name: str) -> None:
        """Look at nothing yet."""
        self._stream = stream
        self._name = name
        self._looked = False

    def read1(self, size: int = -1, /) -> bytes:
        """What is there, at most so many bytes; empty at the end."""
        piece = self._stream.read1(size)
        if not self._looked and piece:
            self._looked = True
            refuse_no_text(self._name, piece[:BEGINNING])
        return piece
