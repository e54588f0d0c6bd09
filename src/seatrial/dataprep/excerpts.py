# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Excerpts of a data set: a document as text, and a range of bytes with its meaning.

They need no data libraries: a CLI without these reads the excerpts that a pod made.
"""

from dataclasses import dataclass

_PREVIEW = 300


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a data set."""

    file: str
    number: int
    """Its number in the file, from 0."""
    documents: int
    """Number of documents in the file."""
    start: int
    """Offset of its first byte in the `.bin`."""
    tokens: tuple[int, ...]
    text: str
    """Decoded text, or the token IDs if the tokenizer is not available."""

    @property
    def heading(self) -> str:
        """Describe the document in one line."""
        return (
            f"document {self.number:,} of {self.documents:,} in {self.file}: "
            f"{len(self.tokens):,} tokens from byte {self.start:,}"
        )

    def preview(self) -> str:
        """Return the heading and the start of the text."""
        begin = self.text[:_PREVIEW]
        return f"{self.heading}\n{begin}{'…' if len(self.text) > _PREVIEW else ''}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of bytes of a file and its meaning."""

    start: int
    end: int
    shown: str
    meaning: str
    """Description of the bytes."""
