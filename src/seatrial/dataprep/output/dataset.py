# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A prepared data set: its files, and the record that makes it complete.

The record contains no details of the work (attempts, times, workers), so two preparations of the
same input give the same bytes, including the record.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.index_file import IndexHeader
from seatrial.dataprep.tasks.records import RECORD_FILE, Counts, PartRecord
from seatrial.dataprep.tasks.task_list import (
    TaskList,
    TaskSettings,
    settings_from,
    settings_to_data,
)
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.hashing import canonical_json
from seatrial.storage.digests import joined
from seatrial.storage.state_files import parse_json

FORMAT = 1
"""Incremented when older records can no longer be read."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The contribution of one part to a file."""

    task: int
    documents: int
    """Documents, including empty ones."""
    tokens: int
    """Tokens, including end-of-document tokens."""
    digest: str
    """Digest of the stored tokens."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A pair of `.bin` and `.idx` with the documents of one source and domain."""

    name: str
    """Path of the pair below the root of the output, without the suffix."""
    source: str
    domain: str
    """The domain as in the documents; empty if the source has no domain field."""
    documents: int
    """Documents, including empty ones."""
    empty: int
    """Documents without tokens."""
    tokens: int
    """Tokens, including end-of-document tokens."""
    token_bytes: int
    index_digest: str
    """Digest of the `.idx`."""
    segments: tuple[Segment, ...]
    """The segments of the `.bin`, in order."""

    @property
    def tokens_file(self) -> str:
        """Path of the tokens below the root of the output."""
        return f"{self.name}.bin"

    @property
    def index_file(self) -> str:
        """Path of the index below the root of the output."""
        return f"{self.name}.idx"

    @property
    def tokens_size(self) -> int:
        """Size of the `.bin` in bytes."""
        return self.tokens * self.token_bytes

    @property
    def tokens_digest(self) -> str:
        """Digest of the `.bin`, computed from its segments."""
        return joined((s.tokens * self.token_bytes, s.digest) for s in self.segments)

    @property
    def header(self) -> IndexHeader:
        """Header of the `.idx`."""
        return IndexHeader(self.token_bytes, self.documents - self.empty, self.documents)


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """Totals of one source over all its tasks."""

    name: str
    tasks: int
    inputs: int
    """Number of its raw text files."""
    counts: Counts
    """Counts of their lines and documents."""
    lengths: tuple[int, ...]
    """Documents by length, as in a part's record."""
    backends: tuple[str, ...]
    """The tokenizer backends with their versions."""


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """The record that makes a data set complete; created last, and only once."""

    list_digest: str
    """Digest of the frozen task list, which names all inputs."""
    settings: TaskSettings
    """All settings that the output depends on, besides the inputs; without limits."""
    files: tuple[DataFile, ...]
    """The files, in order."""
    sources: tuple[SourceSummary, ...]
    """Totals of the sources, in order."""
    quarantine_file: str | None = None
    """Path of the list of all bad lines below the root of the output; None if there are none."""
    quarantine_digest: str | None = None
    """Digest of that list; None in records of older versions."""
    tokenizer_files: Mapping[str, str] | None = None
    """SHA-256 of the tokenizer's files by name; None in records of older versions."""

    @property
    def tokens(self) -> int:
        """Tokens of all files."""
        return sum(file.tokens for file in self.files)

    @property
    def documents(self) -> int:
        """Documents of all files."""
        return sum(file.documents for file in self.files)

    def to_json(self) -> bytes:
        """Return the record as it is stored."""
        data = asdict(self) | {"format": FORMAT}
        data["settings"] = settings_to_data(self.settings)
        data["files"] = [_stored_file(file) for file in self.files]
        return canonical_json(data).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> "DatasetRecord":
        """Parse a stored record; raise FindingsError if it is invalid."""
        try:
            values: dict[str, Any] = parse_json(data)
            if values.pop("format") != FORMAT:
                raise ValueError("the record was written by a different version of Seatrial")
            values["settings"] = settings_from(values["settings"])
            values["files"] = tuple(map(data_file_from, values["files"]))
            values["sources"] = tuple(map(_summary, values["sources"]))
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            finding = Finding(
                DatasetCode.RECORD,
                Severity.ERROR,
                Where(file=RECORD_FILE),
                f"this is not the record of a data set ({type(error).__name__}: {error}).",
                "",
                "Restore the file from the original. Or delete it and prepare the data again, or "
                "prepare the data in a different directory.",
            )
            raise FindingsError([finding]) from error


def _stored_file(file: DataFile) -> dict[str, Any]:
    """Return a file as stored; the digest of the tokens is for readers that see only the record."""
    return asdict(file) | {"tokens_digest": file.tokens_digest}


def data_file_to_json(file: DataFile) -> bytes:
    """Serialize the description of one file."""
    return canonical_json(_stored_file(file)).encode()


def data_file_from(values: dict[str, Any]) -> DataFile:
    """Parse the description of a file; raise ValueError if it is inconsistent."""
    stored = dict(values)
    digest = stored.pop("tokens_digest")
    stored["segments"] = tuple(Segment(**segment) for segment in stored["segments"])
    file = DataFile(**stored)
    if file.tokens_digest != digest:
        raise ValueError(f"the digest of {file.tokens_file} differs from that of its segments")
    if file.tokens != sum(segment.tokens for segment in file.segments):
        raise ValueError(f"the token count of {file.name} differs from that of its segments")
    if file.documents != sum(segment.documents for segment in file.segments):
        raise ValueError(f"the document count of {file.name} differs from that of its segments")
    return file


def _summary(values: dict[str, Any]) -> SourceSummary:
    return SourceSummary(
        **values
        | {
            "counts": Counts(**values["counts"]),
            "lengths": tuple(values["lengths"]),
            "backends": tuple(values["backends"]),
        }
    )


def summarize(tasks: TaskList, records: Iterable[PartRecord]) -> tuple[SourceSummary, ...]:
    """Return the totals of each source, in the order of the settings."""
    by_task = {record.task: record for record in records}
    found = []
    for source in tasks.settings.sources:
        own = [task for task in tasks.tasks if task.source == source.name]
        parts = [by_task[task.number] for task in own]
        found.append(
            SourceSummary(
                name=source.name,
                tasks=len(own),
                inputs=sum(len(task.inputs) for task in own),
                counts=_added(part.counts for part in parts),
                lengths=_added_lengths(part.lengths for part in parts),
                backends=tuple(sorted({part.backend for part in parts})),
            )
        )
    return tuple(found)


def _added(counts: Iterable[Counts]) -> Counts:
    plain: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    for each in counts:
        values = asdict(each)
        bad.update(values.pop("bad"))
        plain.update(values)
    return Counts(**plain, bad=dict(sorted(bad.items())))


def _added_lengths(lengths: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    total: list[int] = []
    for each in lengths:
        total.extend([0] * (len(each) - len(total)))
        for index, number in enumerate(each):
            total[index] += number
    return tuple(total)
