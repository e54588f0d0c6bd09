# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure assembling and verifying: time a document, and whether memory grows with their number.

    python scripts/measure_merge.py [MILLIONS ...]

For each number of documents, short ones of 8 tokens, 5 % empty, in 16 parts, are written to disk
once; then a fresh process assembles them and another verifies the result. Time is the processor's,
best of three, digests included; memory is the most that the process held, and what it held before
it began is shown beside it. Ends with 1 when assembling takes more than 0.1 µs a document, or
memory grows with the number of documents.
"""

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from seatrial.dataprep.output.assemble import assemble
from seatrial.dataprep.output.dataset import DatasetRecord, summarize
from seatrial.dataprep.stores.local import LocalStore
from seatrial.dataprep.tasks.records import Counts, PartFile, PartRecord
from seatrial.dataprep.tasks.task_list import (
    InputFile,
    InputFormat,
    Settings,
    SourceSettings,
    Task,
    TaskList,
    Tokenizer,
    TokenizerKind,
    freeze,
    thaw,
)
from seatrial.dataprep.verification.verify import verify

PARTS = 16
LENGTH = 8
"""Tokens of a document with text, the end included."""
END = 50_256
LIMIT = 0.1
"""Microseconds of the processor that assembling may take for a document."""
ROUNDS = 3
GROWTH = 8 << 20
"""Bytes by which the most memory may differ between the fewest and the most documents."""


def task_list() -> TaskList:
    """One task a part, of one source."""
    tokenizer = Tokenizer(TokenizerKind.HUGGING_FACE, "none", "0" * 64, END + 1, END)
    inputs = [InputFile(f"/none/{n}", 1, "1", InputFormat.JSONL) for n in range(PARTS)]
    tasks = [Task(number, "short", (file,)) for number, file in enumerate(inputs)]
    return thaw(freeze(Settings(tokenizer, (SourceSettings("short"),)), tasks))


def write_parts(root: Path, tasks: TaskList, documents: int) -> None:
    """Parts as the kernel leaves them."""
    for number in range(PARTS):
        count = documents // PARTS
        lengths = np.full(count, LENGTH, "<i4")
        lengths[::20] = 0
        tokens = np.full(int(lengths.sum()), 7, "<u2")
        tokens[LENGTH - 1 :: LENGTH] = END
        paths = []
        for ending, data in (("tokens", tokens), ("lengths", lengths)):
            path = root / f"part-{number}.{ending}"
            path.write_bytes(data.tobytes())
            paths.append((path.name, "sha256:" + hashlib.sha256(data.tobytes()).hexdigest()))
        empty = count - int(np.count_nonzero(lengths))
        (one, one_digest), (two, two_digest) = paths
        file = PartFile("", one, two, count, empty, tokens.size, one_digest, two_digest)
        record = PartRecord(
            number, tasks.digest, "a", (file,), Counts(count, count), (), None, "none", 0, 0
        )
        (root / f"part-{number}.json").write_bytes(record.to_json())


def most_memory() -> int:
    """The most bytes that this process held; getrusage would count its parent's before exec."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def work(root: Path, what: str) -> None:
    """What the fresh process does; prints time and memory."""
    tasks, store = task_list(), LocalStore(root)
    records = [
        PartRecord.from_json((root / f"part-{number}.json").read_bytes()) for number in range(PARTS)
    ]
    before = most_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    if what == "assemble":
        files = assemble(tasks, records, store)
        record = DatasetRecord(tasks.digest, tasks.settings, files, summarize(tasks, records))
    else:
        findings = verify(store, DatasetRecord.from_json((root / "dataset.json").read_bytes()))
        if findings:
            raise SystemExit("\n".join(finding.one_line() for finding in findings))
    result = {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "before": before,
        "peak": most_memory(),
    }
    if what == "assemble":
        (root / "dataset.json").write_bytes(record.to_json())
    print(json.dumps(result))


def measured(root: Path, what: str) -> dict[str, float]:
    """The best of a few rounds, each in a process of its own."""
    rounds = []
    for _ in range(ROUNDS):
        if what == "assemble":
            shutil.rmtree(root / "work", ignore_errors=True)
        words = [sys.executable, __file__, "--work", str(root), what]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        rounds.append(json.loads(done.stdout))
    best: dict[str, float] = min(rounds, key=lambda each: each["cpu"])
    return best


def main(millions: list[int]) -> int:
    """Measure, print a table and judge."""
    print(f"{platform.platform()}, Python {platform.python_version()}, numpy {np.__version__}")
    print("documents     step      CPU µs/doc  wall µs/doc  peak MiB  of it before MiB")
    peaks: dict[str, list[float]] = {"assemble": [], "verify": []}
    good = True
    for million in millions:
        documents = million * 1_000_000
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            write_parts(root, task_list(), documents)
            for what, all_peaks in peaks.items():
                best = measured(root, what)
                cpu, wall = best["cpu"] / documents * 1e6, best["wall"] / documents * 1e6
                all_peaks.append(best["peak"])
                good &= what != "assemble" or cpu <= LIMIT
                sizes = f"{best['peak'] / 2**20:8.1f}  {best['before'] / 2**20:16.1f}"
                print(f"{documents:<12,}  {what:<8}  {cpu:10.4f}  {wall:11.4f}  {sizes}")
    for what, found in peaks.items():
        grown = max(found) - min(found)
        good &= grown <= GROWTH
        print(f"{what}: most memory differs by {grown / 2**20:.1f} MiB over all numbers")
    print("good" if good else f"above the limit of {LIMIT} µs a document, or memory grows")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main([int(word) for word in sys.argv[1:]] or [1, 5, 20]))
