# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Peak memory of the data kernel for a long stream and for one long document.

    python -m benchmarks.dataprep.memory TOKENIZER.json [--gigabytes 20] [--megabytes 100]

The stream is made while it is read, and what comes of it is discarded. Each case runs in a process
of its own. Ends with 1 when a case needs more than 1 GiB.
"""

import argparse
import io
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Buffer
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from benchmarks.measured import measure
from seatrial.dataprep.kernel.run import run_task
from seatrial.dataprep.tasks.task_list import (
    InputFile,
    InputFormat,
    SourceSettings,
    Task,
    TaskSettings,
    freeze,
    thaw,
)
from seatrial.dataprep.tokenizers.encoder import open_encoder
from seatrial.dataprep.tokenizers.identity import describe
from seatrial.storage.directory import LocalStore

LIMIT = 1 << 30
_BLOCK = 16 << 20


_WORD = 12
"""Letters of a word that is never seen again."""


def _text(rng: random.Random, known: list[str], size: int) -> str:
    """Text of about so many characters; each `*` stands for a letter of a word of its own."""
    words = rng.choices(known, k=size // 6)
    words[::40] = ["*" * _WORD] * len(words[::40])
    return " ".join(words)


def _known(rng: random.Random) -> list[str]:
    return [
        "".join(rng.choices("etaoinshrdlucmfwypvbgk", k=rng.randint(1, 9))) for _ in range(9000)
    ]


class _Made(io.RawIOBase):
    """A block over and over until there are so many bytes, between a head and a tail.

    Its letters `*` become others each time, for what a tokenizer remembers of words must grow.
    """

    def __init__(self, head: bytes, block: bytes, tail: bytes, size: int) -> None:
        super().__init__()
        self._block = np.frombuffer(block, np.uint8).copy()
        self._letters = np.flatnonzero(self._block == ord("*"))
        self._random = np.random.default_rng(1)
        self._pieces = chain([head], repeat(None, -(-size // len(block))), [tail])
        self._piece = memoryview(b"")
        self._at = 0

    def _next(self) -> memoryview | None:
        for piece in self._pieces:
            if piece is not None:
                return memoryview(piece)
            letters = self._random.integers(ord("a"), ord("z") + 1, len(self._letters), np.uint8)
            self._block[self._letters] = letters
            return memoryview(self._block)
        return None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        while not self._piece:
            piece = self._next()
            if piece is None:
                return 0
            self._piece = piece
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._piece))
        view[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        self._at += count
        return count

    def tell(self) -> int:
        return self._at


def _made(case: str, size: int) -> _Made:
    """The input of a case: many documents, or one."""
    rng = random.Random(1)
    known = _known(rng)
    if case == "document":
        return _Made(b'{"text": "', _text(rng, known, _BLOCK // 2).encode(), b'"}\n', size)
    lines: list[bytes] = []
    total = 0
    while total < _BLOCK:
        text = _text(rng, known, int(rng.lognormvariate(7.6, 0.9)) + 50)
        lines.append(json.dumps({"text": text, "n": len(lines)}).encode() + b"\n")
        total += len(lines[-1])
    return _Made(b"", b"".join(lines), b"", size)


class _Discarding(LocalStore):
    """A store that keeps records only: 20 GB of text are 20 GB of tokens here."""

    def open_writer(self, path: str) -> BinaryIO:
        return open(os.devnull, "wb")


def _run(tokenizer_path: Path, case: str, size: int, backend: str) -> None:
    """Do one case in this process and print what it took."""
    tokenizer, _ = describe(str(tokenizer_path))
    file = InputFile("made.jsonl", size, "", InputFormat.JSONL)
    settings = TaskSettings(tokenizer, (SourceSettings("s"),))
    tasks = thaw(freeze(settings, [Task(0, "s", (file,))]))
    encoder = open_encoder(tokenizer, tokenizer_path, backend)

    made = _made(case, size)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
        record = run_task(
            tasks.tasks[0],
            tasks,
            _Discarding(folder),
            encoder,
            "a",
            opener=lambda _: cast(BinaryIO, made),
        )
    result = {
        "case": case,
        "input_bytes": size,
        "documents": record.counts.documents,
        "tokens": sum(each.tokens for each in record.files),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the stream")
    parser.add_argument("--megabytes", type=float, default=100.0, help="size of the document")
    parser.add_argument("--backend", default="gigatoken")
    parser.add_argument("--case", choices=["stream", "document"])
    asked = parser.parse_args()
    sizes = {"stream": int(asked.gigabytes * 1e9), "document": int(asked.megabytes * 1e6)}
    if asked.case:
        _run(asked.tokenizer, asked.case, sizes[asked.case], asked.backend)
        return 0
    worst = 0
    for case in sizes:
        words = [sys.executable, "-m", "benchmarks.dataprep.memory", *sys.argv[1:], "--case", case]
        run = measure(words)
        print(f"{run.output.strip()}  {run.memory >> 20} MiB", flush=True)
        worst = max(worst, run.memory)
    print(f"largest: {worst / 2**20:.0f} MiB of {LIMIT >> 20} MiB")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
