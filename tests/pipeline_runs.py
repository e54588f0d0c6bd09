# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What pipelines have in common, on this host or in a cluster: a corpus, and a clock."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard

from docs.tools.page_parts import ROOT
from tests.unit.dataprep.little_corpus import documents, tokenizer_json

RESULTS = ROOT / "build/pipelines.jsonl"


def write_corpus(directory: Path, texts: int, files: int = 1) -> None:
    """Compressed text in `corpus`, and a tokenizer beside it."""
    (directory / "corpus").mkdir()
    for number in range(files):
        text = "".join(json.dumps(one) + "\n" for one in documents(7 + number, texts))
        file = directory / "corpus" / f"{number}.jsonl.zst"
        file.write_bytes(zstandard.compress(text.encode()))
    (directory / "tokenizer.json").write_text(tokenizer_json())
    settings = {"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))


class Clock:
    """Counts how long each step of a pipeline takes."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count what is done inside for a step."""
        began = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began

    def table(self, title: str) -> str:
        """The steps, how long each took and which share of the whole that is."""
        whole = sum(self.seconds.values())
        lines = [f"  {name:<9} {s:5.0f} s  {s / whole:4.0%}" for name, s in self.seconds.items()]
        return "\n".join([f"{title}: the whole way in {whole:.0f} s", *lines])


def record(title: str, clock: Clock, resumed: list[int], logits: float) -> None:
    """Keep a pipeline for the table of `docs/tools/recorded_tables.py`."""
    told = {
        "title": title,
        "seconds": clock.seconds,
        "resumed": resumed,
        "logits": logits,
        "load": os.getloadavg()[1],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as stream:
        stream.write(json.dumps(told) + "\n")
