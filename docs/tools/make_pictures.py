# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Make the pictures of `seatrial watch` and `seatrial report` for the docs, from a real run.

    python -m docs.tools.make_pictures [DIRECTORY]

The run is made in the directory (build/shown-run) if missing, which needs the worker's environment
(SEATRIAL_WORKER_PYTHON) and some minutes: the real engine trains a small model on the CPU in four
processes. One is killed on the way, and all start again from the newest checkpoint; later the run
is stopped, and launched once more. The terminal is drawn as the run stood at a step of its last
attempt, at 80×24 and at 200×50. The report is opened in the system's Chromium. Writes
docs/figures/watch-80x24.svg, watch-200x50.svg, report-light.png, report-dark.png.
"""

import asyncio
import io
import os
import re
import signal
import sys
import time
from pathlib import Path

from docs.tools.browser import chromium
from docs.tools.page_parts import ROOT
from seatrial.catalog.catalog import Catalog
from seatrial.monitoring.event_log import Event, EventKind, read_events
from seatrial.reports.live.app import WatchApp
from seatrial.reports.live.reading import LiveReading
from seatrial.reports.run_page.chapter import read_chapter
from seatrial.reports.run_page.page import report_page
from seatrial.runs.history.history import RunHistory
from seatrial.runs.history.locate import Places, find_history
from seatrial.runs.ledger.host import LocalRun, local_runs
from seatrial.runs.stop import stop_here
from seatrial.sdk.runs import launch

NAME = "harbour"
STEPS = 240
KILLED_AFTER = 90
STOPPED_AFTER = 165
LIMIT = 1800.0
"""Seconds that the whole may take."""
SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: {name}
model:
  dimensions:
    family: gpt
    layers: 4
    hidden_size: 64
    heads: 4
    kv_heads: 4
    head_dim: 16
    ffn_hidden_size: 256
    vocab_size: 2048
    max_positions: 128
    positions: learned
    norm: layernorm
    activation: gelu
    linear_bias: true
    tied_embeddings: true
data: {{mock: true}}
training:
  steps: {steps}
  sequence_length: 128
  micro_batch_size: 2
  global_batch_size: 8
  learning_rate: {{peak: 3e-3}}
  evaluation: {{every_steps: 40, batches: 2}}
parallelism: {{tp_size: 2, pp_size: 1}}
checkpoints: {{every_steps: 40}}
cluster:
  profile: local
  processes_per_node: 4
  restarts: 3
  storage: {{mount: {mount}}}
"""


def make(directory: Path) -> Path:
    """Run it in a directory, unless it is there; the directory."""
    log = directory / "volume" / NAME / "events.jsonl"
    if log.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    spec = directory / "run.yaml"
    mount = (directory / "volume").resolve()
    spec.write_text(SPEC.format(name=NAME, steps=STEPS, mount=mount), encoding="utf-8")
    deadline = time.monotonic() + LIMIT
    launch(spec)
    run = local_runs(directory)[NAME]
    _await_step(run, log, KILLED_AFTER, deadline)
    _kill_a_rank(directory)
    _await_step(run, log, STOPPED_AFTER, deadline)
    stop_here(run)
    launch(spec)
    while run.supervisor(2) and time.monotonic() < deadline:
        time.sleep(0.5)
    stop_here(run)
    return directory


def _await_step(run: LocalRun, log: Path, step: int, deadline: float) -> None:
    while time.monotonic() < deadline:
        steps = (
            [e.step for e in read_events(log) if e.kind is EventKind.STEP] if log.exists() else []
        )
        if max(steps, default=0) >= step:
            return
        newest = run.read().newest
        if newest is None or not run.supervisor(newest.number):
            sys.exit(f"the run ended before step {step}: see {run.directory}")
        time.sleep(0.2)
    sys.exit(f"step {step} was not reached in time")


def _kill_a_rank(directory: Path) -> None:
    """Kill rank 2 as the kernel would when memory is short."""
    events = f"SEATRIAL_EVENTS={(directory / 'volume').resolve()}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"RANK=2" in words and any(word.startswith(events) for word in words):
            os.kill(int(process.name), signal.SIGKILL)
            return
    sys.exit("no process of rank 2 was found")


FIGURES = ROOT / "docs" / "figures"
SIZES = ((80, 24), (200, 50))
SHOWN_STEP = 200
"""The step of the last attempt at which the terminal is drawn."""
_FETCHED_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What would let a reader's browser fetch a font from elsewhere."""


def stood(history: RunHistory) -> LiveReading:
    """The run as it stood at the shown step, or at its end where it was short."""
    reading = LiveReading(history, follow=False)
    last = max(attempt.number for attempt in history.attempts)
    for told in history.story():
        reading.take(told)
        is_step = isinstance(told, Event) and told.kind is EventKind.STEP
        if reading.attempt == last and is_step and reading.view.highest >= SHOWN_STEP:
            break
    reading.caught_up = True
    return reading


async def screenshot(reading: LiveReading, width: int, height: int) -> str:
    """The view in a terminal of that size, as SVG."""
    shown = WatchApp(reading, in_background=False, now=lambda: reading.view.last_time or 0.0)
    async with shown.run_test(size=(width, height)) as pilot:
        await pilot.pause()
        shown.redraw()
        await pilot.pause()
        picture = shown.export_screenshot(title=f"seatrial watch {NAME}")
    # Ids are new at every run, and the same picture is to be the same file.
    picture = re.sub(r"terminal-\d+", "terminal", picture)
    lines = _FETCHED_FONT.sub("", picture).replace("Fira Code", "monospace").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def photograph(page: Path) -> None:
    """The top of a report as a browser shows it, light and dark."""
    with chromium() as browser:
        for theme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": 1280, "height": 1720})
            tab.goto(f"{page.resolve().as_uri()}?theme={theme}")
            tab.wait_for_selector("html[data-drawn=yes]", timeout=120_000)
            target = FIGURES / f"report-{theme}.png"
            tab.screenshot(path=str(target), timeout=120_000)


def main() -> None:
    directory = make(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "shown-run"))
    # As somebody sees it who works in the directory of the spec.
    os.chdir(directory)
    history = find_history(NAME, Places(Catalog(), io.BytesIO()))
    reading = stood(history)
    for width, height in SIZES:
        picture = asyncio.run(screenshot(reading, width, height))
        (FIGURES / f"watch-{width}x{height}.svg").write_text(picture, encoding="utf-8")
    page = Path(f"{NAME}-report.html")
    page.write_text(report_page([read_chapter(history)]), encoding="utf-8")
    photograph(page)


if __name__ == "__main__":
    main()
