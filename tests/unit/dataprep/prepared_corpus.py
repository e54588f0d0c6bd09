# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The corpus of `tests/data`, prepared by the kernel."""

from pathlib import Path

from seatrial.dataprep.kernel.run import run_task
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import (
    InputFile,
    InputFormat,
    SourceSettings,
    Task,
    TaskList,
    TaskSettings,
    freeze,
    thaw,
)
from seatrial.dataprep.tokenizers.encoder import open_encoder
from seatrial.dataprep.tokenizers.identity import describe
from seatrial.storage.directory import LocalStore

DATA = Path(__file__).parents[2] / "data"


def pinned(path: Path) -> InputFile:
    stat = path.stat()
    return InputFile(str(path), stat.st_size, str(stat.st_mtime_ns), InputFormat.JSONL)


def prepared(
    root: Path, tokenizer: Path, files: list[Path], backend: str, domain_field: str | None = None
) -> tuple[LocalStore, TaskList, list[PartRecord]]:
    store = LocalStore(root)
    settings = TaskSettings(
        tokenizer=describe(str(tokenizer))[0],
        sources=(SourceSettings("corpus", domain_field=domain_field),),
    )
    inputs = [pinned(path) for path in files]
    tasks = thaw(freeze(settings, [Task(n, "corpus", (i,)) for n, i in enumerate(inputs)]))
    encoder = open_encoder(settings.tokenizer, tokenizer, backend)
    return store, tasks, [run_task(t, tasks, store, encoder, f"a{t.number}") for t in tasks.tasks]


def split_corpus(folder: Path, pieces: int) -> list[Path]:
    lines = (DATA / "corpus.jsonl").read_bytes().splitlines(keepends=True)
    size = -(-len(lines) // pieces)
    paths = []
    for number in range(pieces):
        path = folder / f"{number}.jsonl"
        path.write_bytes(b"".join(lines[number * size : (number + 1) * size]))
        paths.append(path)
    return paths
