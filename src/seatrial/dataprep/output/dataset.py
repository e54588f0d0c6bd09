# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A prepared data set: its files, and the record that makes it count.

The record holds nothing of how the work went (attempts, times, workers), so that two preparations
of the same input give the same bytes, the record included.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.index_file import IndexHeader
from seatrial.dataprep.tasks.records import Counts, PartRecord
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

RECORD_FILE = "dataset.json"
"""Where the record lies below the root of the output."""
FORMAT = 1
"""Counts up when an older record can no longer be read."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What one part gave to a file, in order."""

    task: int
    documents: int
    """Documents, empty ones included."""
    tokens: int
    """Tokens, end-of-document tokens included."""
    digest: str
    """Digest of these tokens as stored."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A pair of `.bin` and `.idx` with the documents of one source and domain."""

    name: str
    """The pair's path below the root of the output, without the ending."""
    source: str
    domain: str
    """The domain as in the documents; empty where the source is not split."""
    documents: int
    """Documents, empty ones included."""
    empty: int
    """Documents of no tokens."""
    tokens: int
    """Tokens, end-of-document tokens included."""
    token_bytes: int
    index_digest: str
    """Digest of the `.idx`."""
    segments: tuple[Segment, ...]
    """What the `.bin` is made of."""

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
        """Bytes of the `.bin`."""
        return self.tokens * self.token_bytes

    @property
    def tokens_digest(self) -> str:
        """Digest of the `.bin`, from those of its segments."""
        return joined((s.tokens * self.token_bytes, s.digest) for s in self.segments)

    @property
    def header(self) -> IndexHeader:
        """What the `.idx` begins with."""
        return IndexHeader(self.token_bytes, self.documents - self.empty, self.documents)


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """What one source came to, over all its tasks."""

    name: str
    tasks: int
    inputs: int
    """Its files of raw text."""
    counts: Counts
    """What was met in them."""
    lengths: tuple[int, ...]
    """Documents by length, as in a part's record."""
    backends: tuple[str, ...]
    """The tokenizer backends that were used, with their versions."""


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """What makes a data set count; created last, once."""

    list_digest: str
    """Digest of the frozen task list, which names all inputs."""
    settings: TaskSettings
    """Everything beside the inputs that the output depends on; of the limits nothing is stored."""
    files: tuple[DataFile, ...]
    """The files, in order."""
    sources: tuple[SourceSummary, ...]
    """What the sources came to, in order."""
    quarantine_file: str | None = None
    """Path of the list of all bad lines below the root of the output; None when there are none."""
    quarantine_digest: str | None = None
    """Digest of that list; records of older versions have none."""

    @property
    def tokens(self) -> int:
        """Tokens of all files."""
        return sum(file.tokens for file in self.files)

    @property
    def documents(self) -> int:
        """Documents of all files."""
        return sum(file.documents for file in self.files)

    def to_json(self) -> bytes:
        """The record as it is stored."""
        data = asdict(self) | {"format": FORMAT}
        data["settings"] = settings_to_data(self.settings)
        data["files"] = [_stored_file(file) for file in self.files]
        return canonical_json(data).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> "DatasetRecord":
        """The record as it was stored; an error of the user's kind when it is not one."""
        try:
            values: dict[str, Any] = parse_json(data)
            if values.pop("format") != FORMAT:
                raise ValueError("the record is of another version of Seatrial")
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
                "Restore the file from where it was copied. Or remove it and prepare the data "
                "again, or choose another directory for them.",
            )
            raise FindingsError([finding]) from error


def _stored_file(file: DataFile) -> dict[str, Any]:
    """A file as it is stored; the digest of the tokens is for readers who have only the record."""
    return asdict(file) | {"tokens_digest": file.tokens_digest}


def data_file_to_json(file: DataFile) -> bytes:
    """One file's description on its own."""
    return canonical_json(_stored_file(file)).encode()


def data_file_from(values: dict[str, Any]) -> DataFile:
    """The description that was stored; ValueError when it contradicts itself."""
    stored = dict(values)
    digest = stored.pop("tokens_digest")
    stored["segments"] = tuple(Segment(**segment) for segment in stored["segments"])
    file = DataFile(**stored)
    if file.tokens_digest != digest:
        raise ValueError(f"the digest of {file.tokens_file} is not that of its segments")
    if file.tokens != sum(segment.tokens for segment in file.segments):
        raise ValueError(f"the tokens of {file.name} are not those of its segments")
    if file.documents != sum(segment.documents for segment in file.segments):
        raise ValueError(f"the documents of {file.name} are not those of its segments")
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
    """What each source came to, in the order of the settings."""
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
