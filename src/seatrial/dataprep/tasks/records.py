# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Records: small files, created last and only once, that make a part or a data set complete.

The names of a part's files contain the attempt that wrote them, so two attempts never write the
same file. The attempt that creates the record first wins, and the other deletes its files. Readers
use records and never list directories.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from seatrial.hashing import canonical_json
from seatrial.storage.state_files import parse_json

RECORD_FILE = "dataset.json"
"""Path of a data set's record below the root of the output."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """The tokens of one domain in one part, as two files: tokens, and document lengths.

    Lengths are little-endian int32, one per document in order, 0 for an empty one. They include the
    end-of-document token. Every output format can be built from these two files.
    """

    domain: str
    """The domain as in the documents; empty if the source has no domain field."""
    tokens_file: str
    """Path of the tokens below the root of the output."""
    lengths_file: str
    """Path of the lengths below the root of the output."""
    documents: int
    """Documents, including empty ones."""
    empty: int
    """Documents without tokens."""
    tokens: int
    """Tokens, including end-of-document tokens."""
    tokens_digest: str
    """Digest of the token file, prefixed with the algorithm and a colon."""
    lengths_digest: str
    """Digest of the length file."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a task; `lines = documents + dropped + bad`."""

    lines: int = 0
    """Lines, rows or text files that were read, without blank lines."""
    documents: int = 0
    """Documents that were written."""
    dropped: int = 0
    """Empty documents that the policy dropped."""
    bad: dict[str, int] = field(default_factory=dict)
    """Bad lines by reason."""
    text_bytes: int = 0
    """Bytes of text in UTF-8."""
    input_bytes: int = 0
    """Stored bytes that were read."""
    audited: int = 0
    """Documents that were tokenized again with the reference."""


@dataclass(frozen=True, slots=True)
class PartRecord:
    """The result of a task."""

    task: int
    list_digest: str
    """Digest of the frozen list that contains the task."""
    attempt: str
    """The attempt that won."""
    files: tuple[PartFile, ...]
    """One pair of files per domain, in order of first appearance."""
    counts: Counts
    lengths: tuple[int, ...]
    """Documents by length: entry i counts 2^(i-1) to 2^i - 1 tokens; entry 0 the empty ones."""
    quarantine_file: str | None
    """Path of the list of bad lines with locations, below the root of the output."""
    backend: str
    """The tokenizer backend with its version."""
    seconds: float
    """Wall-clock time."""
    cpu_seconds: float
    """CPU time of the process."""
    quarantine_digest: str | None = None
    """Digest of the list of bad lines; None in records of older versions."""

    def to_json(self) -> bytes:
        """Return the record as it is stored."""
        return canonical_json(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "PartRecord":
        """Parse a stored record."""
        values: dict[str, Any] = parse_json(data)
        values["files"] = tuple(PartFile(**file) for file in values["files"])
        values["counts"] = Counts(**values["counts"])
        values["lengths"] = tuple(values["lengths"])
        return cls(**values)


def tasks_file(name: str) -> str:
    """Return the path of the frozen list of that short name, below the root of the output."""
    return f"work/{name}/tasks.jsonl"


def tokenizer_file(name: str) -> str:
    """Return the path of the tokenizer file next to the list, for workers on any machine."""
    return f"work/{name}/tokenizer"


def record_file(name: str, task: int) -> str:
    """Return the path of a task's record below the root of the output."""
    return f"work/{name}/records/{task:06d}.json"


def part_prefix(name: str, task: int, attempt: str) -> str:
    """Return the path prefix of an attempt's files, below the root of the output."""
    return f"work/{name}/parts/{task:06d}.{attempt}"
