# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parts as the kernel would leave them, made from plain lists of ids."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from seatrial.dataprep.output.index_file import token_type
from seatrial.dataprep.tasks.records import Counts, PartFile, PartRecord, part_prefix, record_file
from seatrial.dataprep.tasks.task_list import (
    InputFile,
    InputFormat,
    SourceSettings,
    Task,
    TaskList,
    TaskSettings,
    Tokenizer,
    TokenizerKind,
    freeze,
    thaw,
)
from seatrial.storage.store import Store

END = 50_256
DOCUMENT_SET = Mapping[str, Sequence[Sequence[int]]]
"""For each domain the ids of its documents, without the end; an empty one has none."""


def tokenizer(vocab_size: int = 50_257, end: int = END) -> Tokenizer:
    return Tokenizer(TokenizerKind.HUGGING_FACE, "tokenizer.json", "0" * 64, vocab_size, end)


def task_list(
    sources: Sequence[str], chosen: Tokenizer | None = None, **settings: object
) -> TaskList:
    """A task for each entry, of the source of that name."""
    names = dict.fromkeys(sources)
    common = TaskSettings(
        tokenizer=chosen or tokenizer(),
        sources=tuple(SourceSettings(name) for name in names),
        **settings,  # type: ignore[arg-type]
    )
    inputs = [InputFile(f"/raw/{n}.jsonl", 10, "v", InputFormat.JSONL) for n in range(len(sources))]
    tasks = [Task(n, name, (inputs[n],)) for n, name in enumerate(sources)]
    return thaw(freeze(common, tasks))


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def write_part(
    store: Store, tasks: TaskList, number: int, domains: DOCUMENT_SET, attempt: str = "a"
) -> PartRecord:
    """One part's files and its record."""
    chosen = tasks.settings.tokenizer
    files = []
    for place, (domain, documents) in enumerate(domains.items()):
        ended = [[*ids, chosen.end_of_document] if ids else [] for ids in documents]
        tokens = np.array(
            [i for ids in ended for i in ids], token_type(chosen.token_bytes)
        ).tobytes()
        lengths = np.array([len(ids) for ids in ended], "<i4").tobytes()
        prefix = f"{part_prefix(tasks.name, number, attempt)}.{place}"
        for ending, data in (("tokens", tokens), ("lengths", lengths)):
            with store.open_writer(f"{prefix}.{ending}") as out:
                out.write(data)
        files.append(
            PartFile(
                domain=domain,
                tokens_file=f"{prefix}.tokens",
                lengths_file=f"{prefix}.lengths",
                documents=len(ended),
                empty=sum(not ids for ids in ended),
                tokens=len(tokens) // chosen.token_bytes,
                tokens_digest=digest(tokens),
                lengths_digest=digest(lengths),
            )
        )
    total = sum(file.documents for file in files)
    record = PartRecord(
        task=number,
        list_digest=tasks.digest,
        attempt=attempt,
        files=tuple(files),
        counts=Counts(lines=total, documents=total, input_bytes=10),
        lengths=(sum(file.empty for file in files),),
        quarantine_file=None,
        backend="made 1",
        seconds=1.0,
        cpu_seconds=1.0,
    )
    store.create(record_file(tasks.name, number), record.to_json())
    return record
