# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The frozen task list: the settings that determine every byte of the output, and the tasks.

A task list is written once, before any work, and named by its digest. It contains everything that
the output depends on, so neither the number of workers nor a kill changes the result. The first
line also has settings that workers need but that do not affect the output, under a key that the
digest excludes. You can therefore change the limit for bad lines without losing finished tasks.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from seatrial.hashing import canonical_json
from seatrial.spec.data import EmptyDocuments, EndTokenInText
from seatrial.storage.state_files import parse_json

FORMAT = 1
"""Incremented when lists of an older version can no longer be continued."""


class InputFormat(StrEnum):
    """The format of the documents in a file."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    TEXT = "text"
    TEXT_LINES = "text-lines"
    TEXT_PARAGRAPHS = "text-paragraphs"
    TAR = "tar"


class Compression(StrEnum):
    """The compression of a file, by the suffix of its name."""

    ZSTD = ".zst"
    GZIP = ".gz"
    XZ = ".xz"
    BZIP2 = ".bz2"
    LZ4 = ".lz4"


COMPRESSED_TAR = {
    ".tgz": Compression.GZIP,
    ".txz": Compression.XZ,
    ".tbz2": Compression.BZIP2,
    ".tzst": Compression.ZSTD,
}
"""Short suffixes of compressed archives."""


def compression_of(name: str) -> Compression | None:
    """Return the compression of a file with this name, or `None`."""
    lower = name.lower()
    by_suffix = {each: each for each in Compression} | COMPRESSED_TAR
    return next((each for suffix, each in by_suffix.items() if lower.endswith(suffix)), None)


class TokenizerKind(StrEnum):
    """The library that defines the tokenizer file."""

    HUGGING_FACE = "huggingface"
    """A `tokenizer.json`."""
    TIKTOKEN = "tiktoken"
    """A `.tiktoken` rank file, or the name of one of tiktoken's encodings."""
    SENTENCEPIECE = "sentencepiece"
    """A SentencePiece `.model`."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer, identified by its content and not by its location."""

    kind: TokenizerKind
    """The library that defines the file."""
    address: str
    """The address it was read from, without secrets."""
    sha256: str
    """Digest of the file."""
    vocab_size: int
    """IDs are below this; determines the width of a token on disk, as in Megatron."""
    end_of_document: int
    """The ID that ends every document with text."""

    @property
    def token_bytes(self) -> int:
        """Bytes per token on disk. Megatron's rule: 2 if the vocabulary is below 65,500, else 4."""
        return 2 if self.vocab_size < 65_500 else 4


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings for reading one source."""

    name: str
    """Short name; the prefix of the prepared files."""
    text_field: str = "text"
    """Field of a document with its text; dots separate nested keys."""
    domain_field: str | None = None
    """Field that splits the source into domains; dots separate nested keys."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The shared settings of all tasks: everything besides the inputs that affects the output."""

    tokenizer: Tokenizer
    sources: tuple[SourceSettings, ...]
    """The sources, in the order of the spec."""
    empty_documents: EmptyDocuments = EmptyDocuments.KEEP
    """Handling of documents without text."""
    end_token_in_text: EndTokenInText = EndTokenInText.TOKEN
    """Handling of the end-of-document token in a text."""
    largest_bad_share: float = field(default=1e-4, compare=False)
    """If a task has a larger share of bad lines, it fails. The output does not depend on this
    limit, so the digest excludes it, and every start can change it."""

    def source(self, name: str) -> SourceSettings:
        return next(source for source in self.sources if source.name == name)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One pinned file of raw text."""

    address: str
    """An absolute path, or an address with a scheme."""
    size: int
    """Stored bytes."""
    version: str
    """ETag, generation, commit or modification time; changes when the file changes."""
    format: InputFormat
    """Format of its documents."""


@dataclass(frozen=True, slots=True)
class Task:
    """A few files of one source that one process prepares together."""

    number: int
    """Its position in the list, from 0."""
    source: str
    inputs: tuple[InputFile, ...]
    """Its files, in order."""

    @property
    def size(self) -> int:
        """Stored bytes of all inputs."""
        return sum(file.size for file in self.inputs)


@dataclass(frozen=True, slots=True)
class TaskList:
    """The frozen list, named by its digest."""

    settings: TaskSettings
    """Settings that all tasks share."""
    tasks: tuple[Task, ...]
    """The tasks, in the order of their output."""
    digest: str
    """SHA-256 of the frozen file in hexadecimal, without settings that do not affect the output."""

    @property
    def name(self) -> str:
        """The short form of the digest, used in paths."""
        return self.digest[:12]


def freeze(settings: TaskSettings, tasks: Iterable[Task]) -> bytes:
    """Serialize the list: one line of settings, then one line per task."""
    return "".join(_lines(settings, tasks)).encode()


def _lines(settings: TaskSettings, tasks: Iterable[Task]) -> Iterator[str]:
    shared = settings_to_data(settings)
    beside: dict[str, Any] = {"largest_bad_share": settings.largest_bad_share}
    # The name of a rank file determines its encoding; other tokenizer files are self-contained.
    if settings.tokenizer.kind is not TokenizerKind.TIKTOKEN:
        beside["tokenizer_address"] = shared["tokenizer"].pop("address")
    yield canonical_json({"beside": beside, "format": FORMAT, "settings": shared}) + "\n"
    for task in tasks:
        inputs = [[f.address, f.size, f.version, f.format] for f in task.inputs]
        yield canonical_json([task.number, task.source, inputs]) + "\n"


def thaw(data: bytes) -> TaskList:
    """Parse a frozen list."""
    head, _, lines = data.partition(b"\n")
    values = parse_json(head)
    beside = values.pop("beside")
    hasher = hashlib.sha256(canonical_json(values).encode() + b"\n")
    hasher.update(lines)
    shared = values["settings"]
    if "tokenizer_address" in beside:
        shared["tokenizer"]["address"] = beside["tokenizer_address"]
    settings = settings_from(shared, beside["largest_bad_share"])
    return TaskList(settings, tuple(map(_task, lines.splitlines())), hasher.hexdigest())


def _task(line: bytes) -> Task:
    number, source, inputs = parse_json(line)
    files = [InputFile(a, size, version, InputFormat(kind)) for a, size, version, kind in inputs]
    return Task(number, source, tuple(files))


def settings_to_data(settings: TaskSettings) -> dict[str, Any]:
    """Return settings as plain data, without the limits, which do not affect the output."""
    data = asdict(settings)
    del data["largest_bad_share"]
    return data


def settings_from(data: dict[str, Any], largest_bad_share: float | None = None) -> TaskSettings:
    """Restore settings from plain data."""
    tokenizer = data["tokenizer"] | {"kind": TokenizerKind(data["tokenizer"]["kind"])}
    settings = TaskSettings(
        tokenizer=Tokenizer(**tokenizer),
        sources=tuple(SourceSettings(**source) for source in data["sources"]),
        empty_documents=EmptyDocuments(data["empty_documents"]),
        end_token_in_text=EndTokenInText(data["end_token_in_text"]),
    )
    if largest_bad_share is None:
        return settings
    return replace(settings, largest_bad_share=largest_bad_share)


SMALLEST = 8 << 20
"""Below this many bytes, a task is not worth its startup and files."""
LARGEST = 1 << 30
"""Above this many bytes, losing a task costs too much."""
TASKS = 256
"""Target number of tasks for a medium corpus: enough to keep many workers busy."""


def bundle(sources: Iterable[tuple[str, Sequence[InputFile]]]) -> list[Task]:
    """Group inputs into tasks of similar size, in order; each task has inputs of one source."""
    ordered = [(name, list(files)) for name, files in sources]
    total = sum(file.size for _, files in ordered for file in files)
    target = min(max(total // TASKS, SMALLEST), LARGEST)
    tasks: list[Task] = []
    for name, files in ordered:
        held: list[InputFile] = []
        size = 0
        for file in files:
            # Start the next bundle if the file would exceed the target by more than the bundle
            # is below it now.
            if held and size + file.size - target > target - size:
                tasks.append(Task(len(tasks), name, tuple(held)))
                held, size = [], 0
            held.append(file)
            size += file.size
        if held:
            tasks.append(Task(len(tasks), name, tuple(held)))
    return tasks
