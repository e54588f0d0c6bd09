# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where the time of the tasks goes: each stage alone on the same corpus, in one process.

    python -m scripts.bench.stages SPEC OUTPUT BACKEND

Prints CPU-seconds as JSON: decompressing; parsing, which is reading documents less decompressing;
tokenizing; and what is left of the whole tasks: the audit, end-of-document tokens, digests,
writing and committing.
"""

import json
import sys
import time

import zstandard

from seatrial.client import plan
from seatrial.dataprep.documents.reading import read_documents
from seatrial.dataprep.inputs.access import open_input
from seatrial.dataprep.kernel.run import run_task
from seatrial.dataprep.prepare import list_tasks
from seatrial.dataprep.stores.access import store_at
from seatrial.dataprep.tasks.frozen import freeze_into
from seatrial.dataprep.tasks.task_list import Task, TaskList, thaw
from seatrial.dataprep.tokenizers.encoder import Encoder, open_encoder
from seatrial.dataprep.tokenizers.stored_file import tokenizer_path


def decompressing(task: Task) -> float:
    """CPU-seconds of reading and decompressing the inputs of a task."""
    began = time.process_time()
    buffer = bytearray(1 << 20)
    for file in task.inputs:
        with zstandard.ZstdDecompressor().stream_reader(open_input(file)) as stream:
            while stream.readinto(buffer):
                pass
    return time.process_time() - began


def reading_and_tokenizing(task: Task, tasks: TaskList, encoder: Encoder) -> tuple[float, float]:
    """CPU-seconds of reading the documents of a task, and of tokenizing them."""
    source = tasks.settings.source(task.source)
    read = tokenized = 0.0
    began = time.process_time()
    for file in task.inputs:
        for batch in read_documents(file, source, open_input):
            read += time.process_time() - began
            began = time.process_time()
            encoder.encode(batch.texts)
            tokenized += time.process_time() - began
            began = time.process_time()
    return read, tokenized


def main() -> None:
    """Measure the stages."""
    spec, output, backend = sys.argv[1:]
    frozen, tokenizer = list_tasks(plan(spec))
    tasks, store = thaw(frozen), store_at(output)
    freeze_into(store, frozen, tokenizer)
    file = tokenizer_path(store, tasks)
    # Each has an encoder of its own, since they remember the words that they have seen.
    alone, whole = (open_encoder(tasks.settings.tokenizer, file, backend) for _ in range(2))
    stages = dict.fromkeys(("decompressing", "parsing", "tokenizing", "rest", "all"), 0.0)
    for task in tasks.tasks:
        unpacked = decompressing(task)
        read, tokenized = reading_and_tokenizing(task, tasks, alone)
        began = time.process_time()
        run_task(task, tasks, store, whole, "stages")
        every = time.process_time() - began
        stages["decompressing"] += unpacked
        stages["parsing"] += read - unpacked
        stages["tokenizing"] += tokenized
        stages["rest"] += every - read - tokenized
        stages["all"] += every
    print(json.dumps(stages))


if __name__ == "__main__":
    main()
