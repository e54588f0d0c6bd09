# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What reading gives: documents by the batch, and bad lines with place and reason."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

LONGEST = 1 << 30
"""Bytes of a line, a row or a text above which it counts as bad. Such a line is most often a file
that is no JSON lines at all, and nothing of that size fits the memory of a worker."""

LONGEST_DOMAIN = 256
"""Characters of a domain's name; a longer one is text, because the field is the wrong one."""

_SHOWN = 60


class BadLineReason(StrEnum):
    """Why a line cannot be used."""

    NOT_UTF8 = "not-utf-8"
    """Its bytes are not UTF-8."""
    NOT_JSON = "not-json"
    """It is not JSON, such as a line that was cut."""
    SURROGATE = "lone-surrogate"
    r"""An escape such as `\ud800` stands alone, which is no character."""
    TOO_DEEP = "nested-too-deep"
    """It has more than 1,024 levels of brackets."""
    NOT_OBJECT = "not-an-object"
    """It is JSON, and not an object with fields."""
    NO_TEXT = "no-text-field"
    """The field of the text is absent or null."""
    NOT_TEXT = "text-not-a-string"
    """The field of the text holds something else than a string."""
    NO_DOMAIN = "no-domain-field"
    """The field of the domain is absent, or holds something else than a short string."""
    TOO_LONG = "too-long"
    """It is longer than 1 GiB."""
    END_IN_TEXT = "end-token-in-text"
    """The text holds the end-of-document token, and the policy is that this is bad."""


@dataclass(frozen=True, slots=True)
class LineLocation:
    """Where a document comes from."""

    address: str
    line: int
    """Line, or row, counted from 1."""
    offset: int
    """Bytes before it, after decompression; 0 in Parquet files, which have no such thing."""

    def __str__(self) -> str:
        return f"{self.address}:{self.line}"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be used."""

    place: LineLocation
    reason: BadLineReason
    shown: str = ""
    """How it begins, or what is wrong in it, with anything that is not ASCII escaped."""


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Documents that follow each other in a file."""

    texts: list[str]
    domains: list[str] | None
    """The domain of each; nothing where the source is not split."""
    bad: Sequence[BadLine]
    """The lines among them that cannot be used."""
    place: Callable[[int], LineLocation]
    """Where the text of that number comes from; found only when it is asked for."""


@dataclass(slots=True)
class LineCount:
    """How many lines files have, counted apart from reading documents out of them.

    So a document that is lost on the way from the file to the part is missed.
    """

    lines: int = 0
    """Lines, rows or texts, blank lines left out."""


def excerpt(data: bytes) -> str:
    """The beginning of some bytes, short and safe to print."""
    return ascii(data[:_SHOWN].decode("latin-1"))[1:-1][:_SHOWN]


def selected(batch: DocumentBatch, numbers: Sequence[int]) -> DocumentBatch:
    """Some documents of a batch, in the given order; the bad lines stay behind."""
    texts, domains = batch.texts, batch.domains
    return DocumentBatch(
        [texts[i] for i in numbers],
        None if domains is None else [domains[i] for i in numbers],
        (),
        lambda i: batch.place(numbers[i]),
    )


def joined(batches: Sequence[DocumentBatch]) -> DocumentBatch:
    """The documents of batches of one source, one after the other; without the bad lines."""
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
