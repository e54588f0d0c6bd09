# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A report in a real browser: every plot draws, and nobody on the network is asked."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, sync_playwright

from seatrial.monitoring.event_log import EventLog
from seatrial.reports.run_page.chapter import read_chapter
from seatrial.reports.run_page.page import report_page
from seatrial.runs.history.files import file_history
from tests.unit.monitoring.made_up_run import whole_run

DRAWN = "plots => plots.map(p => [p.id, p.querySelectorAll('.trace, .point').length])"
"""The shapes of each plot, by its name."""
pytestmark = [
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium"),
    # Playwright's own threads close after the test.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_every_plot_draws_and_nothing_is_fetched(tmp_path: Path) -> None:
    file = tmp_path / "made-up.events.jsonl"
    log = EventLog(file)
    for event in whole_run():
        log.append(event)
    log.close()
    page = tmp_path / "page.html"
    page.write_text(report_page([read_chapter(file_history(file))]), encoding="utf-8")
    asked: list[str] = []
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", heard)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-drawn=yes]", timeout=60_000)
        plots = tab.locator(".plot").evaluate_all(DRAWN)
        tab.locator("#loss .nsewdrag").hover()
        bars = tab.locator(".modebar-btn").count()
        tab.locator("button[data-turns=tokens]").first.click()
        tab.wait_for_timeout(300)
        tokens = tab.evaluate("Math.max(...document.getElementById('loss').data[0].x)")
        tab.locator("#theme").click()
        tab.wait_for_timeout(300)
        theme = tab.evaluate("document.documentElement.dataset.theme")
        tab.emulate_media(media="print")
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        tab.wait_for_timeout(300)
        printed = tab.evaluate("document.documentElement.dataset.theme")
        buttons = tab.locator("button:visible").count()
        browser.close()
    assert bars == 0
    assert printed == "light"
    assert buttons == 0
    assert len(plots) == 8
    assert [name for name, shapes in plots if not shapes] == []
    assert tokens == 40 * 8 * 128
    assert theme in ("light", "dark")
    assert [url for url in asked if url != page.as_uri()] == []
    assert complaints == []
