# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tasks of a few files run by the kernel, and the same done naively, one document at a time."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tokenizers
import zstandard

from seatrial.dataprep.inputs.selection import format_of
from seatrial.dataprep.kernel.run import run_task
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import (
    Compression,
    InputFile,
    InputFormat,
    SourceSettings,
    Task,
    TaskList,
    TaskSettings,
    Tokenizer,
    TokenizerKind,
    compression_of,
    freeze,
    thaw,
)
from seatrial.dataprep.tokenizers.encoder import Encoder
from seatrial.dataprep.tokenizers.identity import model_of
from seatrial.spec.data import EndTokenInText
from seatrial.storage.directory import LocalStore
from tests.unit.dataprep.gpt2 import PACKED

END = 50256
GPT2 = Tokenizer(TokenizerKind.HUGGING_FACE, "gpt2/tokenizer.json", "0" * 64, 50257, END)


@cache
def gpt2_json() -> str:
    return zstandard.ZstdDecompressor().decompress(PACKED.read_bytes(), 1 << 24).decode()


@cache
def naive() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(gpt2_json())


@cache
def naive_without_end() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_str(gpt2_json())
    # Its own way to take special tokens for text, which ours has to agree with.
    tokenizer.encode_special_tokens = True
    return tokenizer


def naive_tokens(text: str, policy: EndTokenInText = EndTokenInText.TOKEN) -> list[int]:
    """The tokens of one document as they are stored."""
    tokenizer = naive_without_end() if policy is EndTokenInText.TEXT else naive()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [*ids, END] if ids else []


@cache
def encoder(backend: str = "gigatoken") -> Encoder:
    """GPT-2's tokenizer, loaded once for all tests of a process."""
    return Encoder(GPT2, model_of(GPT2, gpt2_json().encode()), backend)


def packed(data: bytes, name: str) -> bytes:
    """Bytes as a file of that name stores them."""
    match compression_of(name):
        case Compression.ZSTD:
            return zstandard.ZstdCompressor().compress(data)
        case Compression.GZIP:
            return gzip.compress(data, 1)
        case Compression.XZ:
            return lzma.compress(data)
        case Compression.BZIP2:
            return bz2.compress(data)
        case Compression.LZ4:
            return _lz4(data)
        case None:
            return data


def _lz4(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def tarred(members: Sequence[tuple[str, bytes]], kind: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive of these members."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=kind) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def jsonl(documents: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents)


def written(folder: Path, name: str, stored: bytes) -> InputFile:
    """A file as an input."""
    path = folder / name
    path.write_bytes(stored)
    kind = format_of(name) or InputFormat.JSONL
    return InputFile(str(path), len(stored), str(path.stat().st_mtime_ns), kind)


def listed(
    inputs: Sequence[InputFile],
    text_field: str = "text",
    domain_field: str | None = None,
    **settings: Any,
) -> TaskList:
    """A frozen list of one task."""
    source = SourceSettings("s", text_field, domain_field)
    return thaw(freeze(TaskSettings(GPT2, (source,), **settings), [Task(0, "s", tuple(inputs))]))


@dataclass
class Ran:
    """A task that was done."""

    record: PartRecord
    documents: dict[str, list[list[int]]]
    """The tokens of each document, by domain."""
    quarantine: list[dict[str, Any]]


def run(tasks: TaskList, out: Path, attempt: str = "a", using: Encoder | None = None) -> Ran:
    """Do the task of a list, and read back what it wrote."""
    store = LocalStore(out)
    record = run_task(tasks.tasks[0], tasks, store, using or encoder(), attempt)
    found = {}
    for file in record.files:
        tokens = np.frombuffer(store.read(file.tokens_file), "<u2").tolist()
        lengths = np.frombuffer(store.read(file.lengths_file), "<i4").tolist()
        assert (len(lengths), lengths.count(0)) == (file.documents, file.empty)
        assert sum(lengths) == len(tokens) == file.tokens
        ends = np.cumsum(lengths).tolist()
        found[file.domain] = [tokens[e - n : e] for e, n in zip(ends, lengths, strict=True)]
    path = record.quarantine_file
    lines = store.read(path).splitlines() if path else []
    return Ran(record, found, [json.loads(line) for line in lines])


def counts_add_up(ran: Ran) -> None:
    """Lines are documents, dropped or bad; each bad one is in the quarantine, with its reason."""
    counts = ran.record.counts
    assert counts.lines == counts.documents + counts.dropped + sum(counts.bad.values())
    assert counts.documents == sum(file.documents for file in ran.record.files)
    assert counts.documents == sum(ran.record.lengths)
    reasons = [line["reason"] for line in ran.quarantine]
    assert {reason: reasons.count(reason) for reason in set(reasons)} == counts.bad
