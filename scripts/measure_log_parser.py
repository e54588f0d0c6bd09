# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what reading logs costs: lines a second, memory over a long stream, bytes of events.

    python -m scripts.measure_log_parser [--write] [--lines N] [--gigabytes G] [--ranks R]
        [--steps S]

One line in five of the log is a step's; the others are what NCCL, the data loader and Python's
warnings print. The long stream is made up while it is read, so that no disk is needed. The events
are those that a run of so many ranks writes for so many steps. `--write` puts the figures into
docs/guides/watch.md. Ends with 1 when a bar is missed.
"""

import argparse
import itertools
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.monitoring.diagnosis.evidence import EvidenceFile, EvidenceKind
from seatrial.monitoring.diagnosis.excerpt import read_excerpt
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.monitoring.logs.reading import read_stream
from seatrial.monitoring.rank_times import sum_up

LINES_A_SECOND = 200_000
MEMORY_GROWTH = 2**20
"""Bytes that the peak may grow by after a tenth of the stream: none, but for what malloc rounds."""
EVENT_BYTES = 200e6
PAGE = Path(__file__).parents[1] / "docs/guides/watch.md"
PLACE = re.compile(r"(<!-- reading -->\n).*?(<!-- end -->)", re.DOTALL)

NOISE = (
    "slim-7b-worker-0:412:1733 [3] NCCL INFO Channel 07/0 : 3[3] -> 2[2] via P2P/CUMEM",
    "slim-7b-worker-0:412:1733 [3] NCCL INFO NET/OFI Selected provider is efa, fabric is efa",
    "/usr/lib/python3.12/site-packages/torch/utils/checkpoint.py:92: UserWarning: None of them",
    "W1115 03:10:11.412000 412 torch/distributed/run.py:792] Setting OMP_NUM_THREADS to be 1",
    "INFO:megatron.core.datasets.gpt_dataset:> total number of samples: 1171874",
    "    loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size)",
    "",
)


def step_line(step: int) -> str:
    """A step's line as megatron-core 0.19 prints it."""
    return (
        f" [2026-11-15 03:10:11.{step % 1_000_000:06d}] iteration {step:8d}/ 5000000 |"
        f" consumed samples: {step * 1024:12d} | elapsed time per iteration (ms): 2143.7 |"
        " throughput per GPU (TFLOP/s/GPU): 412.6 | learning rate: 2.999871E-04 |"
        f" global batch size:  1024 | lm loss: {2 + 1 / step:.6E} | loss scale: 1.0 |"
        " grad norm: 0.912 | num zeros: 12 | params norm: 312.447 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def log_lines(first: int, steps: int) -> bytes:
    """A piece of a log: after each step four lines of noise."""
    noise = itertools.cycle(NOISE)
    lines: list[str] = []
    for step in range(first, first + steps):
        lines += [step_line(step), *itertools.islice(noise, 4)]
    return ("\n".join(lines) + "\n").encode()


class MadeUpLog:
    """A log of so many bytes that exists only while it is read; its steps go on counting."""

    def __init__(self, size: int) -> None:
        """Make one piece that is handed out again and again."""
        self.size = size
        self.read = 0
        self._piece = log_lines(1, 4000)
        self._place = 0

    def read1(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        if self.read >= self.size:
            return b""
        chunk = self._piece[self._place : self._place + size]
        self._place = (self._place + len(chunk)) % len(self._piece)
        self.read += len(chunk)
        return chunk


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True)
class Figure:
    """One thing that was measured."""

    what: str
    """What."""
    measured: str
    """How much."""
    bar: str
    """What was asked for; empty where nothing was."""
    met: bool = True
    """Whether it is met."""

    def line(self) -> str:
        """How it is printed."""
        verdict = f" (bar: {self.bar}) {'ok' if self.met else 'MISSED'}" if self.bar else ""
        return f"{self.what}: {self.measured}{verdict}"


def measure_speed(lines: int, repeats: int = 5) -> Figure:
    """Lines a second of one core, from a file; the best of a few, as others use the machine."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "log"
        file.write_bytes(log_lines(1, lines // 5))
        rates = []
        for _ in range(repeats):
            began = time.process_time()
            with file.open("rb") as stream:
                steps = sum(1 for event in read_stream(stream))
            rates.append(lines / (time.process_time() - began))
    return Figure(
        "lines of a log, 1 in 5 a step's, read on one core",
        f"{max(rates):,.0f} a second of CPU time ({min(rates):,.0f} in the slowest of {repeats})",
        f"{LINES_A_SECOND:,}",
        steps == lines // 5 and max(rates) >= LINES_A_SECOND,
    )


def measure_diagnosis(lines: int) -> Figure:
    """Lines a second of one core that `seatrial diagnose` looks through."""
    told = log_lines(1, lines // 5).decode().splitlines()
    began = time.process_time()
    read_excerpt(EvidenceFile("log", EvidenceKind.LOG, lambda: told))
    rate = lines / (time.process_time() - began)
    return Figure("lines that diagnose looks through", f"{rate:,.0f} a second of CPU time", "")


def measure_memory(size: int) -> Figure:
    """The peak of memory over a long stream, after a tenth of it and at the end."""
    source = MadeUpLog(size)
    events, early = 0, 0
    began = time.process_time()
    for _ in read_stream(source):
        events += 1
        if not early and source.read > size / 10:
            early = peak()
    seconds = time.process_time() - began
    return Figure(
        f"a log of {source.read / 1e9:.2f} GB, {events:,} steps",
        f"{seconds:.0f} s of CPU; most memory {early / 2**20:.1f} MiB after a tenth,"
        f" {peak() / 2**20:.1f} MiB at the end",
        "no growth",
        peak() - early <= MEMORY_GROWTH,
    )


def run_events(ranks: int, steps: int) -> Iterator[Event]:
    """What the worker writes for a run."""
    source = random.Random(1)
    # The sum over the ranks is drawn from a few of them: the size of an event is what counts.
    figures = [sum_up([source.gauss(2.0, 0.05) for _ in range(ranks)]) for _ in range(3)]
    for step in range(1, steps + 1):
        when = 1_794_700_000 + 2.1437 * step
        parts = {name: source.random() for name in ("data", "compute", "reduce", "optimizer")}
        values = {
            "seconds": round(source.gauss(2.1, 0.01), 6),
            "loss": source.gauss(3, 0.1),
            "grad_norm": source.random(),
            "learning_rate": source.random() * 1e-4,
            "skipped": False,
            "parts": {name: round(value, 6) for name, value in parts.items()},
        }
        yield Event(EventKind.STEP, step, when, values)
        told = zip(("busy", "data", "memory"), figures, strict=True)
        yield Event(EventKind.RANKS, step, when, {name: f.to_dict() for name, f in told})
        if step % 100 == 0:
            yield Event(EventKind.SAVE, step, when, {"seconds": 21.5})
            values = {"seconds": 11.2, "loss": 3.1, "split": "validation"}
            yield Event(EventKind.EVALUATION, step, when, values)


def measure_events(ranks: int, steps: int) -> Figure:
    """Bytes of an event log."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "events.jsonl"
        log = EventLog(file)
        for event in run_events(ranks, steps):
            log.append(event)
        log.close()
        size = file.stat().st_size
    return Figure(
        f"events of {ranks:,} ranks and {steps:,} steps",
        f"{size / 1e6:.1f} MB, {size / steps:.0f} bytes a step",
        f"{EVENT_BYTES / 1e6:.0f} MB",
        size <= EVENT_BYTES,
    )


def write(figures: list[Figure]) -> None:
    """Put the figures into the guide."""
    rows = [("what", "measured", "bar"), ("---",) * 3]
    rows += [(figure.what, figure.measured, figure.bar or "none") for figure in figures]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    page = PAGE.read_text(encoding="utf-8")
    page, places = PLACE.subn(lambda found: f"{found[1]}{table}\n{found[2]}", page)
    if places != 1:
        sys.exit(f"{PAGE.name} has {places} places for the table")
    PAGE.write_text(page, encoding="utf-8")


def measured(chosen: argparse.Namespace) -> Iterator[Figure]:
    """All of it, one after the other."""
    yield measure_speed(chosen.lines)
    yield measure_memory(round(chosen.gigabytes * 1e9))
    yield measure_diagnosis(chosen.lines)
    yield measure_events(chosen.ranks, chosen.steps)


def main() -> int:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--ranks", type=int, default=16_384)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    figures = []
    for figure in measured(chosen):
        print(figure.line(), flush=True)
        figures.append(figure)
    if chosen.write:
        write(figures)
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
