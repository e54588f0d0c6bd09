# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The results of reading: batches of documents, and bad lines with location and reason."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

LONGEST = 1 << 30
"""A line, row or text with more bytes than this is bad. Such a file is usually not JSON lines at
all, and a worker does not have the memory for it."""

LONGEST_DOMAIN = 256
"""Longest domain name in characters; a longer value means that the field is the wrong one."""

_SHOWN = 60


class BadLineReason(StrEnum):
    """Why a line cannot be used."""

    NOT_UTF8 = "not-utf-8"
    """The line is not UTF-8."""
    NOT_JSON = "not-json"
    """The line is not JSON, for example because it is truncated."""
    SURROGATE = "lone-surrogate"
    r"""An escape such as `\ud800` is unpaired, so it is not a character."""
    TOO_DEEP = "nested-too-deep"
    """The line has more than 1,024 levels of brackets."""
    NOT_OBJECT = "not-an-object"
    """The line is JSON, but not an object."""
    NO_TEXT = "no-text-field"
    """The text field is absent or null."""
    NOT_TEXT = "text-not-a-string"
    """The text field is not a string."""
    NO_DOMAIN = "no-domain-field"
    """The domain field is absent or not a short string."""
    TOO_LONG = "too-long"
    """The line is longer than 1 GiB."""
    END_IN_TEXT = "end-token-in-text"
    """The text contains the end-of-document token, and the policy rejects this."""


@dataclass(frozen=True, slots=True)
class LineLocation:
    """The location of a document in its file."""

    address: str
    line: int
    """Line or row, counted from 1."""
    offset: int
    """Decompressed bytes before it; 0 in Parquet files."""

    def __str__(self) -> str:
        return f"{self.address}:{self.line}"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be used."""

    place: LineLocation
    reason: BadLineReason
    shown: str = ""
    """The start of the line or the bad part of it, with non-ASCII characters escaped."""


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Consecutive documents of a file."""

    texts: list[str]
    domains: list[str] | None
    """The domain of each document; None if the source has no domain field."""
    bad: Sequence[BadLine]
    """The bad lines between the documents."""
    place: Callable[[int], LineLocation]
    """Returns the location of a text by its index; computed on demand."""


@dataclass(slots=True)
class LineCount:
    """A line count that is independent of the parsed documents.

    Comparing the two detects a document that is lost between the file and the part.
    """

    lines: int = 0
    """Lines, rows or texts, without blank lines."""


def excerpt(data: bytes) -> str:
    """Return the start of some bytes, short and safe to print."""
    return ascii(data[:_SHOWN].decode("latin-1"))[1:-1][:_SHOWN]


def selected(batch: DocumentBatch, numbers: Sequence[int]) -> DocumentBatch:
    """Return the given documents of a batch, in this order and without the bad lines."""
    texts, domains = batch.texts, batch.domains
    return DocumentBatch(
        [texts[i] for i in numbers],
        None if domains is None else [domains[i] for i in numbers],
        (),
        lambda i: batch.place(numbers[i]),
    )


def joined(batches: Sequence[DocumentBatch]) -> DocumentBatch:
    """Concatenate batches of one source, without the bad lines."""
    if len(batches) == 1:
        return batches[0]
    starts = [0, *accumulate(len(batch.texts) for batch in batches)]

    def place(number: int) -> LineLocation:
        of = bisect_right(starts, number) - 1
        return batches[of].place(number - starts[of])

    domains = [domain for batch in batches for domain in batch.domains or ()]
    return DocumentBatch(
        [text for batch in batches for text in batch.texts],
        None if all(batch.domains is None for batch in batches) else domains,
        (),
        place,
    )
