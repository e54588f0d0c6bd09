# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reject binary logs, which would otherwise look like logs without events."""

import codecs

from seatrial.errors import UsageError
from seatrial.monitoring.logs.reading import ByteStream

BEGINNING = 2**16
"""How many bytes at the start are checked."""
MOST_ODD = 0.3
"""The maximum share of invalid and control characters. It is 0.54 for random bytes, 0.5 for English
in UTF-16, and 0.16 for a French sentence in Latin-1."""
_PACKED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ": ("xz", "unxz"),
}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_KEPT = "\t\n\r\f\b\x1b"
"""Control characters that logs contain: line endings, progress bars, colours."""


def refuse_no_text(name: str, beginning: bytes) -> None:
    """Reject a binary log by its first bytes, with a hint on how to convert it."""
    for magic, (kind, program) in _PACKED.items():
        if beginning.startswith(magic):
            raise UsageError(f"{name} is compressed with {kind}. Decompress it with {program}.")
    # A log that was truncated while it was written starts with a hole, which reads as zeros.
    characters = beginning.lstrip(b"\0").decode("utf-8", "replace")
    odd = sum(c == "\ufffd" or (c < " " and c not in _KEPT) for c in characters)
    if beginning.startswith(_WIDE) or odd > MOST_ODD * len(characters):
        raise UsageError(
            f"{name} is not UTF-8 text. If it is UTF-16, convert it first: "
            "iconv -f UTF-16 -t UTF-8."
        )


class OnlyText:
    """A stream that raises at its first read if it is not text."""

    def __init__(self, stream: ByteStream, name: str) -> None:
        self._stream = stream
        self._name = name
        self._looked = False

    def read1(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes. Empty at the end."""
        piece = self._stream.read1(size)
        if not self._looked and piece:
            self._looked = True
            refuse_no_text(self._name, piece[:BEGINNING])
        return piece
