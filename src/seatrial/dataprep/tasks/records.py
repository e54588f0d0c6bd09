# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Records: the small files, created last and once, that make a part or a data set count.

A part's files carry the name of the attempt that wrote them, so two attempts never touch the same
file; whichever creates the record first has won, and the other removes what it wrote. Readers look
at records and never at what lies in a directory.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from seatrial.hashing import canonical_json
from seatrial.storage.state_files import parse_json


@dataclass(frozen=True, slots=True)
class PartFile:
    """The tokens of one domain in one part, as two files: tokens, and the length of each document.

    The lengths are int32, little-endian, one for each document in order, 0 for an empty one. The
    end-of-document token is counted. Together they are all that any output format needs.
    """

    domain: str
    """The domain's name as in the documents; empty where the source is not split."""
    tokens_file: str
    """Path of the tokens below the root of the output."""
    lengths_file: str
    """Path of the lengths below the root of the output."""
    documents: int
    """Documents, empty ones included."""
    empty: int
    """Documents of no tokens."""
    tokens: int
    """Tokens, end-of-document tokens included."""
    tokens_digest: str
    """Digest of the file of tokens, with the name of the algorithm before a colon."""
    lengths_digest: str
    """Digest of the file of lengths."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a task met; `lines = documents + dropped + bad`."""

    lines: int = 0
    """Lines, rows or text files that were read, blank lines left out."""
    documents: int = 0
    """Documents that were written."""
    dropped: int = 0
    """Empty documents that were left out, by the policy."""
    bad: dict[str, int] = field(default_factory=dict)
    """Lines that could not be used, by reason."""
    text_bytes: int = 0
    """Bytes of text in UTF-8."""
    input_bytes: int = 0
    """Bytes read, as stored."""
    audited: int = 0
    """Documents that were tokenized again with the reference."""


@dataclass(frozen=True, slots=True)
class PartRecord:
    """What a task came to."""

    task: int
    list_digest: str
    """Digest of the frozen list that it belongs to."""
    attempt: str
    """The attempt that won."""
    files: tuple[PartFile, ...]
    """One pair of files for each domain, in order of first appearance."""
    counts: Counts
    lengths: tuple[int, ...]
    """Documents by length: the i-th counts those of 2^(i-1) to 2^i - 1 tokens; first the empty."""
    quarantine_file: str | None
    """Path of the list of bad lines, with their places, below the root of the output."""
    backend: str
    """The tokenizer backend that was used, with its version."""
    seconds: float
    """Wall time."""
    cpu_seconds: float
    """CPU time of the process."""
    quarantine_digest: str | None = None
    """Digest of the list of bad lines; records of older versions have none."""

    def to_json(self) -> bytes:
        """The record as it is stored."""
        return canonical_json(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "PartRecord":
        """The record as it was stored."""
        values: dict[str, Any] = parse_json(data)
        values["files"] = tuple(PartFile(**file) for file in values["files"])
        values["counts"] = Counts(**values["counts"])
        values["lengths"] = tuple(values["lengths"])
        return cls(**values)


def tasks_file(name: str) -> str:
    """Where the frozen list of that short name lies below the root of the output."""
    return f"work/{name}/tasks.jsonl"


def tokenizer_file(name: str) -> str:
    """Where the tokenizer's file lies beside the list, for workers on any machine."""
    return f"work/{name}/tokenizer"


def record_file(name: str, task: int) -> str:
    """Where the record of a task lies below the root of the output."""
    return f"work/{name}/records/{task:06d}.json"


def part_prefix(name: str, task: int, attempt: str) -> str:
    """What the paths of an attempt's files begin with, below the root of the output."""
    return f"work/{name}/parts/{task:06d}.{attempt}"
