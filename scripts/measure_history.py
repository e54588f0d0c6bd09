# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what looking at a run costs as ranks and steps grow, and draw it for the docs.

    python -m scripts.measure_history [--quick | --draw]

Writes the events that runs of so many ranks and steps write, and measures bytes on disk, the whole
command `seatrial report` (time, memory) and one redraw of `seatrial watch` in a terminal of 200
columns and 50 lines, from the events in memory to what the terminal is sent. The processor's time
is drawn, because others use the machine meanwhile; the report is held to its bar by the clock too.
Writes docs/figures/history.json and history.svg; ends with 1 when a bar is missed.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from scripts.measure_log_parser import run_events
from seatrial.cli.live.app import WatchApp
from seatrial.cli.live.reading import Reading
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.runs.history_files import file_history

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
RANKS, STEPS = 16_384, 10_000
"""The size that the bars are for."""
MORE_RANKS = (16, 128, 1024, 16_384, 131_072)
MORE_STEPS = (1_000, 10_000, 100_000)
MOST_BYTES = 200e6
MOST_SECONDS = 60.0
MOST_MEMORY = 2e9
MOST_REDRAW = 0.2
REDRAWS = 20
RESTART_EVERY = 1500
"""Steps after which the processes of the made-up run die, and go on from the last save."""


@dataclass(frozen=True, slots=True)
class Point:
    """One size, measured."""

    ranks: int
    """Ranks of the run."""
    steps: int
    """Steps of the run."""
    bytes: int
    """Size of its event log."""
    report_seconds: float
    """Time of the whole command."""
    report_cpu_seconds: float
    """Processor time of the whole command."""
    report_bytes: int
    """The most memory that it had."""
    page_bytes: int
    """Size of the page that it wrote."""
    redraw_cpu_seconds: float
    """Processor time of a redraw, the median."""
    redraw_seconds: float
    """Time of a redraw, the median; whoever else uses the machine is in it."""


def made_up(ranks: int, steps: int) -> Iterator[Event]:
    """The events of a run whose processes die now and then."""
    for event in run_events(ranks, steps):
        if event.kind is EventKind.STEP and event.step % RESTART_EVERY == 1:
            told = {"world_size": ranks, "global_batch_size": 1024, "sequence_length": 4096}
            when = event.time - 2.2
            values = {"began": when - 60, "total_steps": steps, **told}
            yield Event(EventKind.START, event.step - 1, when, values)
        yield event


def write(file: Path, ranks: int, steps: int) -> int:
    """Write the event log; its size."""
    log = EventLog(file)
    for event in made_up(ranks, steps):
        log.append(event)
    log.close()
    return file.stat().st_size


def reported(file: Path) -> tuple[float, float, int, int]:
    """Seconds, processor seconds and memory of the command, and the size of its page."""
    page = file.with_suffix(".html")
    settings = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-m", "seatrial", "report", str(file), "--output", str(page)]
    began = time.perf_counter()
    with subprocess.Popen(words, env=settings, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode:
        sys.exit(f"seatrial report ended with {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return seconds, cpu, usage.ru_maxrss * 1024, page.stat().st_size


def redrawn(file: Path) -> tuple[list[float], list[float]]:
    """Processor seconds and seconds of redraws, from the view to what the terminal is sent."""
    reading = Reading(file_history(file), follow=False)
    reading.run()

    async def draw() -> tuple[list[float], list[float]]:
        app = WatchApp(reading, in_background=False)
        used: list[float] = []
        taken: list[float] = []
        async with app.run_test(size=(200, 50)) as pilot:
            await pilot.pause()
            for _ in range(REDRAWS):
                began, processor = time.perf_counter(), time.process_time()
                app.redraw()
                await pilot.pause()
                used.append(time.process_time() - processor)
                taken.append(time.perf_counter() - began)
        return used, taken

    return asyncio.run(draw())


def measured(ranks: int, steps: int) -> Point:
    """One size."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "run.events.jsonl"
        size = write(file, ranks, steps)
        seconds, cpu, memory, page = reported(file)
        used, taken = redrawn(file)
    return Point(
        ranks,
        steps,
        size,
        round(seconds, 2),
        round(cpu, 2),
        memory,
        page,
        round(statistics.median(used), 4),
        round(statistics.median(taken), 4),
    )


def drawn(points: list[Point]) -> Figure:
    """Each cost as a share of its bar, over ranks and over steps."""
    mpl.rcParams["svg.hashsalt"] = "seatrial"
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, name, fixed in ((left, "ranks", "steps"), (right, "steps", "ranks")):
        usual = STEPS if fixed == "steps" else RANKS
        own = sorted(
            (p for p in points if getattr(p, fixed) == usual), key=lambda p: int(getattr(p, name))
        )
        xs = [getattr(point, name) for point in own]
        for label, values in {
            "event log, of 200 MB": [p.bytes / MOST_BYTES for p in own],
            "report, of 60 s of CPU": [p.report_cpu_seconds / MOST_SECONDS for p in own],
            "report, of 2 GB": [p.report_bytes / MOST_MEMORY for p in own],
            "redraw, of 200 ms of CPU": [p.redraw_cpu_seconds / MOST_REDRAW for p in own],
        }.items():
            axes.plot(xs, [100 * value for value in values], marker="o", label=label)
        axes.axhline(100, color="grey", linestyle="--", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel=f"{name} ({usual:,} {fixed})")
        axes.grid(alpha=0.25)
    left.set_ylabel("% of the bar")
    right.legend(frameon=False, fontsize="small")
    return figure


def save_figure(points: list[Point]) -> None:
    """Write the picture; the same figures give the same file."""
    drawn(points).savefig(FIGURES / "history.svg", metadata={"Date": None})


def main() -> int:
    """Measure, write, draw; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="only the size of the bars")
    parser.add_argument("--draw", action="store_true", help="only draw what was measured")
    chosen = parser.parse_args()
    quick = chosen.quick
    if chosen.draw:
        kept = json.loads((FIGURES / "history.json").read_text(encoding="utf-8"))
        save_figure([Point(**point) for point in kept["points"]])
        return 0
    sizes = {(RANKS, STEPS)}
    if not quick:
        sizes |= {(ranks, STEPS) for ranks in MORE_RANKS} | {(RANKS, s) for s in MORE_STEPS}
    points = []
    print(f"{'ranks':>8}{'steps':>9}{'log':>10}{'report':>9}{'CPU':>8}{'memory':>9}{'redraw':>9}")
    for ranks, steps in sorted(sizes):
        p = measured(ranks, steps)
        points.append(p)
        print(
            f"{ranks:>8,}{steps:>9,}{p.bytes / 1e6:>7.1f} MB{p.report_seconds:>7.1f} s"
            f"{p.report_cpu_seconds:>6.1f} s{p.report_bytes / 1e6:>6.0f} MB"
            f"{1000 * p.redraw_cpu_seconds:>6.0f} ms of CPU ({1000 * p.redraw_seconds:.0f} in all)",
            flush=True,
        )
    if not quick:
        content = {
            "python": platform.python_version(),
            "points": [asdict(point) for point in points],
        }
        text = json.dumps(content, indent=2) + "\n"
        (FIGURES / "history.json").write_text(text, encoding="utf-8")
        save_figure(points)
    at = next(p for p in points if (p.ranks, p.steps) == (RANKS, STEPS))
    met = (
        at.bytes <= MOST_BYTES
        and at.report_seconds <= MOST_SECONDS
        and at.report_bytes <= MOST_MEMORY
        and at.redraw_cpu_seconds <= MOST_REDRAW
    )
    print("all bars met" if met else "a bar is MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
