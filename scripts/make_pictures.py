# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Make the pictures of `seatrial watch` and `seatrial report` for the docs, from a real run.

    python -m scripts.make_pictures [DIRECTORY]

The run is that of scripts/shown_run.py, made in the directory (build/shown-run) unless it is there,
which needs the worker's environment and some minutes. The terminal is drawn as the run stood at a
step of its last attempt, at 80×24 and at 200×50. The report is opened in the system's Chromium.
Writes docs/figures/watch-80x24.svg, watch-200x50.svg, report-light.png, report-dark.png.
"""

import asyncio
import io
import os
import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from scripts.shown_run import NAME, make
from seatrial.catalog.catalog import Catalog
from seatrial.cli.live.app import WatchApp
from seatrial.cli.live.reading import Reading
from seatrial.cli.page.chapter import read_chapter
from seatrial.cli.page.page import report_page
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.runs.find_history import Places, find_history
from seatrial.runs.history import RunHistory

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
SIZES = ((80, 24), (200, 50))
SHOWN_STEP = 200
"""The step of the last attempt at which the terminal is drawn."""
_FETCHED_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What would let a reader's browser fetch a font from elsewhere."""


def stood(history: RunHistory) -> Reading:
    """The run as it stood at the shown step, or at its end where it was short."""
    reading = Reading(history, follow=False)
    last = max(attempt.number for attempt in history.attempts)
    for told in history.story():
        reading.take(told)
        is_step = isinstance(told, Event) and told.kind is EventKind.STEP
        if reading.attempt == last and is_step and reading.view.highest >= SHOWN_STEP:
            break
    reading.caught_up = True
    return reading


async def screenshot(reading: Reading, width: int, height: int) -> str:
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
    browser_file = shutil.which("chromium")
    if browser_file is None:
        sys.exit("There is no chromium here to open the report with.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_file, args=["--no-sandbox", "--disable-gpu"]
        )
        for theme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": 1280, "height": 1720})
            tab.goto(f"{page.resolve().as_uri()}?theme={theme}")
            tab.wait_for_selector("html[data-drawn=yes]", timeout=120_000)
            target = FIGURES / f"report-{theme}.png"
            tab.screenshot(path=str(target), timeout=120_000)
        browser.close()


def main() -> None:
    """Make the run where it is not there, then the pictures."""
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
