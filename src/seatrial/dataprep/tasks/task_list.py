# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be prepared: settings that decide every byte of the output, and the frozen tasks.

A task list is written once, before any work, and named by its digest. Everything that the output
depends on is in it; how many workers there are, and when they are killed, is not. What workers
have to know beside that, and no byte of the output depends on, is in its first line too, under a
key that the digest leaves out: another limit for bad lines does not make finished tasks useless.
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
"""Counts up when a list of an older version can no longer be continued."""


class InputFormat(StrEnum):
    """How the documents of a file are stored."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    TEXT = "text"


class Compression(StrEnum):
    """How a file is compressed: the ending of its name."""

    ZSTD = ".zst"
    GZIP = ".gz"


def compression_of(name: str) -> Compression | None:
    """Return how a file of this name is compressed; None if it is not."""
    return next((each for each in Compression if name.lower().endswith(each)), None)


class TokenizerKind(StrEnum):
    """Whose file the tokenizer is."""

    HUGGING_FACE = "huggingface"
    """A `tokenizer.json`."""
    TIKTOKEN = "tiktoken"
    """A `.tiktoken` file of ranks, or one of tiktoken's own encodings by name."""
    SENTENCEPIECE = "sentencepiece"
    """A SentencePiece `.model`."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer, by what it does and not by where it lies."""

    kind: TokenizerKind
    """Whose file it is."""
    address: str
    """Where it was read from, without a secret."""
    sha256: str
    """Digest of the file."""
    vocab_size: int
    """Ids are below this; decides the width of a token on disk, as in Megatron."""
    end_of_document: int
    """The id that ends every document that has text."""

    @property
    def token_bytes(self) -> int:
        """Bytes of a token on disk. Megatron's rule: 2 below a vocabulary of 65,500, else 4."""
        return 2 if self.vocab_size < 65_500 else 4


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How one source is read."""

    name: str
    """Short name; the prepared files begin with it."""
    text_field: str = "text"
    """Field of a document that holds its text; dots lead into objects."""
    domain_field: str | None = None
    """Field that splits the source into domains; dots lead into objects."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What all tasks share: everything beside the inputs that the output depends on, and limits."""

    tokenizer: Tokenizer
    sources: tuple[SourceSettings, ...]
    """The sources, in the order of the spec."""
    empty_documents: EmptyDocuments = EmptyDocuments.KEEP
    """What becomes of documents without text."""
    end_token_in_text: EndTokenInText = EndTokenInText.TOKEN
    """What becomes of the end-of-document token written out in a text."""
    largest_bad_share: float = field(default=1e-4, compare=False)
    """Share of bad lines of a task above which the task fails. The output does not depend on it, so
    it is not part of the digest, and every start may have another."""

    def source(self, name: str) -> SourceSettings:
        return next(source for source in self.sources if source.name == name)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of raw text, pinned."""

    address: str
    """A path from the root, or an address with its scheme."""
    size: int
    """Bytes as stored."""
    version: str
    """ETag, generation, commit or modification time: what tells a changed file."""
    format: InputFormat
    """How its documents are stored."""


@dataclass(frozen=True, slots=True)
class Task:
    """A few files of one source, prepared together by one process."""

    number: int
    """Its place in the list, from 0."""
    source: str
    inputs: tuple[InputFile, ...]
    """Its files, in order."""

    @property
    def size(self) -> int:
        """Bytes of all inputs as stored."""
        return sum(file.size for file in self.inputs)


@dataclass(frozen=True, slots=True)
class TaskList:
    """The frozen list; its digest names it."""

    settings: TaskSettings
    """What all tasks share."""
    tasks: tuple[Task, ...]
    """The tasks, in the order of their output."""
    digest: str
    """SHA-256 of the frozen file without what no byte depends on, in hexadecimal."""

    @property
    def name(self) -> str:
        """The short form of the digest that directories are named by."""
        return self.digest[:12]


def freeze(settings: TaskSettings, tasks: Iterable[Task]) -> bytes:
    """The list as a file: a line of settings, then a line for each task."""
    return "".join(_lines(settings, tasks)).encode()


def _lines(settings: TaskSettings, tasks: Iterable[Task]) -> Iterator[str]:
    shared = settings_to_data(settings)
    beside: dict[str, Any] = {"largest_bad_share": settings.largest_bad_share}
    # A file of ranks is one of several encodings by its name; other tokenizers are all in the file.
    if settings.tokenizer.kind is not TokenizerKind.TIKTOKEN:
        beside["tokenizer_address"] = shared["tokenizer"].pop("address")
    yield canonical_json({"beside": beside, "format": FORMAT, "settings": shared}) + "\n"
    for task in tasks:
        inputs = [[f.address, f.size, f.version, f.format] for f in task.inputs]
        yield canonical_json([task.number, task.source, inputs]) + "\n"


def thaw(data: bytes) -> TaskList:
    """The list that was frozen."""
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
    """Settings as plain data, without the limits, which say nothing about the output."""
    data = asdict(settings)
    del data["largest_bad_share"]
    return data


def settings_from(data: dict[str, Any], largest_bad_share: float | None = None) -> TaskSettings:
    """The settings that `settings_to_data` gave."""
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
"""Bytes below which a task is not worth its own start and files."""
LARGEST = 1 << 30
"""Bytes above which losing a task costs too much."""
TASKS = 256
"""As many tasks as there would be of a middle-sized corpus: enough to keep many workers even."""


def bundle(sources: Iterable[tuple[str, Sequence[InputFile]]]) -> list[Task]:
    """Tasks of about equal size; inputs keep their order, and a task has those of one source."""
    ordered = [(name, list(files)) for name, files in sources]
    total = sum(file.size for _, files in ordered for file in files)
    target = min(max(total // TASKS, SMALLEST), LARGEST)
    tasks: list[Task] = []
    for name, files in ordered:
        held: list[InputFile] = []
        size = 0
        for file in files:
            # A file that would take the bundle further past the target than it is below it
            # begins the next one.
            if held and size + file.size - target > target - size:
                tasks.append(Task(len(tasks), name, tuple(held)))
                held, size = [], 0
            held.append(file)
            size += file.size
        if held:
            tasks.append(Task(len(tasks), name, tuple(held)))
    return tasks
