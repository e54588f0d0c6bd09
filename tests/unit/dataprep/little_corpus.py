# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A corpus of a few hundred documents with a tokenizer of its own, and a run that reads it."""

import hashlib
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from textwrap import dedent

import zstandard
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from seatrial.dataprep.drivers.driver import Done, Event, PendingJob, line_of
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import Task, TaskList

TEXT = (
    "the ship leaves port at dawn with a full load of tokens and every sailor has read the plan "
    "waves rise über die Reling, 船 は 港 を 出 る; nothing is lost, nothing kept twice 0123456789"
)
WORDS = TEXT.split()
DOMAINS = ("Log", "Letter", "Chart")

SPEC = dedent(
    """\
    apiVersion: seatrial.dev/v1alpha1
    name: little
    model: {{preset: gpt3-125m}}
    data:
      sources:
    {sources}
      tokenizer: {tokenizer}
      location: {location}
    training: {{steps: 1, micro_batch_size: 1, global_batch_size: 8}}
    parallelism:
      tp_size: 1
      pp_size: 1
      vp_size: 1
      cp_size: 1
      ep_size: 1
      sequence_parallel: false
      sharding: optimizer
      recompute: none
    cluster: {{profile: eks, node_type: p4d.24xlarge, nodes: 1}}
    checkpoints: {{every_steps: 1}}
    """
)


@cache
def tokenizer_json() -> str:
    """A small byte-level BPE tokenizer, as GPT-2's is a large one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    return str(tokenizer.to_str())


def forget_copy(dataset: Path) -> None:
    """Make a data set one of an older version, which has no copy of its tokenizer."""
    record = json.loads((dataset / "dataset.json").read_text())
    del record["tokenizer_files"]
    (dataset / "dataset.json").write_text(json.dumps(record))
    shutil.rmtree(dataset / "tokenizer")


def documents(seed: int, count: int) -> Iterator[dict[str, object]]:
    """Documents with text and a domain; one in fifty is empty."""
    random_ = random.Random(seed)  # noqa: S311
    for _ in range(count):
        length = 0 if random_.random() < 0.02 else int(random_.lognormvariate(3, 1))
        text = " ".join(random_.choices(WORDS, k=length))
        yield {"text": text, "meta": {"kind": random_.choice(DOMAINS)}}


def write_corpus(home: Path, sources: int = 3, files: int = 2, count: int = 60) -> Path:
    """Write sources of a few files, a tokenizer and a spec; gives the spec."""
    entries = []
    for source in range(sources):
        directory = home / "corpus" / f"s{source}"
        directory.mkdir(parents=True)
        for file in range(files):
            lines = (json.dumps(each) for each in documents(100 * source + file, count))
            data = "".join(f"{line}\n" for line in lines).encode()
            packed = zstandard.ZstdCompressor().compress(data)
            (directory / f"{file}.jsonl.zst").write_bytes(packed)
        field = ", domain_field: meta.kind" if source == 0 else ""
        entries.append(f"    - {{from: {directory}{field}}}")
    (home / "tokenizer.json").write_text(tokenizer_json())
    spec = home / "run.yaml"
    spec.write_text(
        SPEC.format(
            sources="\n".join(entries), tokenizer=home / "tokenizer.json", location=home / "out"
        )
    )
    return spec


def contents(root: Path) -> dict[str, str]:
    """Every file and directory below a root, hidden ones included, with its digest."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "directory"
        for path in sorted(root.rglob("*"))
    }


class InlineDriver:
    """Runs tasks in this process, and remembers which; stops after so many, when told to."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.done: list[int] = []
        self.stop_after = stop_after

    def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
        bench = Bench(job.chosen())
        for task in wanted:
            if len(self.done) == self.stop_after:
                raise KeyboardInterrupt
            answer = bench.attempt(line_of(tasks, task))
            assert "record" in answer, answer
            self.done.append(task.number)
            yield Done(PartRecord.from_json(answer["record"].encode()))
