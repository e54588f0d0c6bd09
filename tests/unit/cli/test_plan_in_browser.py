# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The HTML page of a plan in a real browser: narrow and wide, light and dark."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import sync_playwright

from seatrial.reports.plan_html import html_page
from tests.unit.cli.made_up_plan import made_up_page

pytestmark = [
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium"),
    # Playwright's own threads close after the test.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
COLLISIONS = """() => {
  const box = e => e.getBoundingClientRect();
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top
    || b.bottom <= a.top;
  const limits = [...document.querySelectorAll('line.limit')].map(box);
  const texts = [...document.querySelectorAll('.bar span, .legend span, h2, dd')].map(box);
  return [limits.length, texts.filter(t => limits.some(l => !apart(t, l))).length];
}"""
"""The number of limit lines, and of texts that touch one."""
WITHOUT_DATA = """() => [...document.querySelectorAll('.legend')].flatMap(legend => {
  const figure = legend.nextElementSibling;
  return [...legend.querySelectorAll('i')].map(i => i.className)
    .filter(name => !figure.querySelector(`rect.${name}, line.${name}`));
})"""
"""The legend entries that nothing in their picture has."""
CONTRAST = """() => {
  const light = colour => {
    const [r, g, b] = colour.match(/\\d+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const stroke = c => light(getComputedStyle(document.querySelector(c)).stroke);
  const [a, b] = [stroke('line.error'), stroke('line.halo')].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""
"""The contrast between an error bar and the line around it (WCAG 2.2)."""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "plan.html"
    file.write_text(html_page(made_up_page()), encoding="utf-8")
    return file


def looked_at(tab: Tab, file: Path) -> None:
    """Assert that a page looks as it should."""
    tab.goto(file.as_uri())
    width = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
    assert tab.evaluate(COLLISIONS) == [2, 0]
    assert tab.evaluate(WITHOUT_DATA) == []
    assert tab.evaluate(CONTRAST) >= 4.5
    assert tab.locator(".node em").count() == 16
    # The first and the last micro-batch of the step are drawn, and the bubble at both ends.
    tips = tab.locator(".timeline title").all_text_contents()
    assert any(tip.startswith("forward of micro-batch 0,") for tip in tips)
    assert any(tip.startswith("backward of micro-batch 127,") for tip in tips)
    assert tab.locator(".timeline rect.bubble").count() >= 2


def test_the_page_holds_at_every_width_and_in_both_themes(page_file: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for width in (390, 768, 1440):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            for scheme in ("light", "dark"):
                tab.emulate_media(color_scheme=scheme)
                looked_at(tab, page_file)
            tab.close()
        browser.close()
