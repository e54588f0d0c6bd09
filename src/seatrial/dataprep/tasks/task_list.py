# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be prepared: settings that decide every byte of the output, and the frozen tasks.

A task list is written once, before any work, and named by its digest. Everything that the output
depends on is in it; how many workers there are, and when they are killed, is not.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from seatrial.hashing import canonical_json
from seatrial.spec.data import EmptyDocuments, EndTokenInText

FORMAT = 1
"""Counts up when a list of an older version can no longer be continued."""


class InputFormat(StrEnum):
    """How the documents of a file are stored; compression is told by the file's name."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    TEXT = "text"


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
class Settings:
    """Everything beside the inputs that the output depends on."""

    tokenizer: Tokenizer
    """The tokenizer."""
    sources: tuple[SourceSettings, ...]
    """The sources, in the order of the spec."""
    empty_documents: EmptyDocuments = EmptyDocuments.KEEP
    """What becomes of documents without text."""
    end_token_in_text: EndTokenInText = EndTokenInText.TOKEN
    """What becomes of the end-of-document token written out in a text."""
    largest_bad_share: float = 1e-4
    """Share of bad lines of a task above which the task fails."""

    def source(self, name: str) -> SourceSettings:
        """The source of that name."""
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
    """The name of the source."""
    inputs: tuple[InputFile, ...]
    """Its files, in order."""

    @property
    def size(self) -> int:
        """Bytes of all inputs as stored."""
        return sum(file.size for file in self.inputs)


@dataclass(frozen=True, slots=True)
class TaskList:
    """The frozen list; its digest names it."""

    settings: Settings
    """What all tasks share."""
    tasks: tuple[Task, ...]
    """The tasks, in the order of their output."""
    digest: str
    """SHA-256 of the frozen file, in hexadecimal."""

    @property
    def name(self) -> str:
        """The short form of the digest that directories are named by."""
        return self.digest[:12]


def freeze(settings: Settings, tasks: Iterable[Task]) -> bytes:
    """The list as a file: a line of settings, then a line for each task."""
    return "".join(_lines(settings, tasks)).encode()


def _lines(settings: Settings, tasks: Iterable[Task]) -> Iterator[str]:
    yield canonical_json({"format": FORMAT, "settings": asdict(settings)}) + "\n"
    for task in tasks:
        inputs = [[f.address, f.size, f.version, f.format] for f in task.inputs]
        yield canonical_json([task.number, task.source, inputs]) + "\n"


def thaw(data: bytes) -> TaskList:
    """The list that was frozen."""
    head, *lines = data.splitlines()
    settings = _settings(json.loads(head)["settings"])
    return TaskList(settings, tuple(map(_task, lines)), hashlib.sha256(data).hexdigest())


def _task(line: bytes) -> Task:
    number, source, inputs = json.loads(line)
    files = [InputFile(a, size, version, InputFormat(kind)) for a, size, version, kind in inputs]
    return Task(number, source, tuple(files))


def _settings(data: dict[str, Any]) -> Settings:
    tokenizer = data["tokenizer"] | {"kind": TokenizerKind(data["tokenizer"]["kind"])}
    return Settings(
        tokenizer=Tokenizer(**tokenizer),
        sources=tuple(SourceSettings(**source) for source in data["sources"]),
        empty_documents=EmptyDocuments(data["empty_documents"]),
        end_token_in_text=EndTokenInText(data["end_token_in_text"]),
        largest_bad_share=data["largest_bad_share"],
    )
