# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what looking at a run costs as ranks and steps grow.

    python -m benchmarks.history [--quick]

Writes the events that runs of so many ranks and steps write, and measures bytes on disk, the whole
command `seatrial report` and one redraw of `seatrial watch` in a terminal of 200 columns and 50
lines, from the events in memory to what the terminal is sent. Writes the table of
docs/guides/watch.md; `--quick` measures only the size that the bars are for, and writes nothing.
Ends with 1 when a bar is missed.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from benchmarks.measured import measure_here
from docs.tools.page_parts import ROOT, put, table
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.monitoring.rank_times import sum_up
from seatrial.reports.live.app import WatchApp
from seatrial.reports.live.reading import LiveReading
from seatrial.runs.history.files import file_history

PAGE = ROOT / "docs/guides/watch.md"
RANKS, STEPS = 16_384, 10_000
"""The size that the bars are for."""
MORE_RANKS = (16, 128, 1024, 16_384, 131_072)
MORE_STEPS = (1_000, 10_000, 100_000)
REDRAWS = 20
RESTART_EVERY = 1500
"""Steps after which the processes of the made-up run die, and go on from the last save."""
HEAD = ("ranks", "steps", "event log", "report, CPU", "report, memory", "redraw, CPU")


@dataclass(frozen=True, slots=True)
class Point:
    ranks: int
    steps: int
    bytes: int
    report_cpu_seconds: float
    report_bytes: int
    redraw_cpu_seconds: float

    @property
    def row(self) -> tuple[str, ...]:
        return (
            *(f"{self.ranks:,}", f"{self.steps:,}", f"{self.bytes / 1e6:.1f} MB"),
            *(f"{self.report_cpu_seconds:.1f} s", f"{self.report_bytes / 1e6:.0f} MB"),
            f"{1000 * self.redraw_cpu_seconds:.0f} ms",
        )


BARS = Point(RANKS, STEPS, 200_000_000, 60.0, 2_000_000_000, 0.2)
"""The most that each may be."""


def events(ranks: int, steps: int) -> Iterator[Event]:
    """What the worker writes for a run whose processes die now and then."""
    source = random.Random(1)
    # The sum over the ranks is drawn from a few of them: the size of an event is what counts.
    figures = [sum_up([source.gauss(2.0, 0.05) for _ in range(ranks)]) for _ in range(3)]
    sizes = {"world_size": ranks, "global_batch_size": 1024, "sequence_length": 4096}
    for step in range(1, steps + 1):
        when = 1_794_700_000 + 2.1437 * step
        if step % RESTART_EVERY == 1:
            values: dict[str, Any] = {"began": when - 62.2, "total_steps": steps, **sizes}
            yield Event(EventKind.START, step - 1, when - 2.2, values)
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


async def redraw(reading: LiveReading) -> list[float]:
    """Processor seconds of redraws, from the view to what the terminal is sent."""
    app, used = WatchApp(reading, in_background=False), []
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        for _ in range(REDRAWS):
            began = time.process_time()
            app.redraw()
            await pilot.pause()
            used.append(time.process_time() - began)
    return used


def measured(ranks: int, steps: int) -> Point:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "run.events.jsonl"
        log = EventLog(file)
        for event in events(ranks, steps):
            log.append(event)
        log.close()
        argv = [sys.executable, "-m", "seatrial", "report", str(file), "--output", f"{file}.html"]
        report = measure_here(argv, Path(directory))
        reading = LiveReading(file_history(file), follow=False)
        reading.run()
        redrawn = statistics.median(asyncio.run(redraw(reading)))
        return Point(ranks, steps, file.stat().st_size, report.cpu, report.memory, redrawn)


def main() -> int:
    sizes = {(RANKS, STEPS)}
    if "--quick" not in sys.argv[1:]:
        sizes |= {(ranks, STEPS) for ranks in MORE_RANKS} | {(RANKS, s) for s in MORE_STEPS}
    points = []
    for ranks, steps in sorted(sizes):
        points.append(measured(ranks, steps))
        print("".join(f"{cell:>16}" for cell in points[-1].row), flush=True)
    if len(points) > 1:
        bar = ["limit", "", *(f"≤ {cell}" for cell in BARS.row[2:])]
        put(PAGE, {"history": table(HEAD, [*(point.row for point in points), bar])})
    at = next(point for point in points if (point.ranks, point.steps) == (RANKS, STEPS))
    met = all(found <= most for found, most in zip(astuple(at), astuple(BARS), strict=True))
    print("all bars met" if met else "a bar is MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
