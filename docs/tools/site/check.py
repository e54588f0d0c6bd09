# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Check the built site as a reader meets it, and print the figures.

    python -m docs.tools.site.check [build/docs]

- No link leads nowhere, to a page or to a section.
- No page is more than three clicks away from the first one.
- Every page has a next step.
- In a real browser at three widths, nothing is cut off: no block, table, picture or page is wider
  than the space it has. Copy buttons are on commands and files alone.
- The search finds pages.

Exits with 1 if one of these fails. Needs chromium.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from docs.tools.browser import chromium
from docs.tools.page_parts import ROOT
from docs.tools.site.pages import Page, clicks, dead_links, read_site

WIDTHS = (390, 768, 1440)
MOST_CLICKS = 3
SHOWN = 20
"""Problems of one kind that are printed."""
SEARCHED = "straggler"
LOADED_SECONDS = 60
CLIPPED = """
() => {
  const found = [], seen = new Set();
  const room = document.documentElement.clientWidth + 1;
  const tell = (element, what, excess) => {
    if (seen.has(element)) return;
    seen.add(element);
    const text = (element.innerText || element.alt || '').trim().split('\\n')[0].slice(0, 50);
    found.push(`${what} by ${Math.round(excess)} px: ${text}`);
  };
  for (const block of document.querySelectorAll('article pre, article .table-wrapper'))
    if (block.scrollWidth > block.clientWidth + 1)
      tell(block, block.tagName === 'PRE' ? 'block' : 'table',
           block.scrollWidth - block.clientWidth);
  for (const element of document.querySelectorAll('article :is(img, table, p, li)')) {
    if (element.tagName !== 'TABLE' && element.closest('table')) continue;
    const box = element.getBoundingClientRect();
    if (box.width && box.right > room)
      tell(element, element.tagName.toLowerCase(), box.right - room);
  }
  const page = document.documentElement;
  if (page.scrollWidth > room) tell(page, 'page', page.scrollWidth - room);
  return found;
}
"""
COPIED_OUTPUT = """
() => [...document.querySelectorAll('button.copybtn')].filter(button => !button.closest(
  '.highlight-console, .highlight-bash, .literal-block-wrapper')).length
"""


def in_browser(browser: Browser, root: Path, site: Mapping[str, Page]) -> dict[int, list[str]]:
    """What is cut off on which page, by width."""
    found: dict[int, list[str]] = {}
    for width in WIDTHS:
        tab = browser.new_page(viewport={"width": width, "height": 900})
        tab.set_default_timeout(LOADED_SECONDS * 1000)
        found[width] = []
        for name in site:
            tab.goto((root / name).as_uri(), wait_until="load")
            found[width] += [f"{name}: {what}" for what in tab.evaluate(CLIPPED)]
            copied = tab.evaluate(COPIED_OUTPUT)
            if copied:
                found[width].append(f"{name}: {copied} copy buttons on output")
        tab.close()
    return found


def search_results(tab: Tab, root: Path) -> int:
    """How many pages the site's own search finds."""
    tab.set_default_timeout(LOADED_SECONDS * 1000)
    tab.goto(f"{(root / 'search.html').as_uri()}?q={SEARCHED}")
    tab.wait_for_selector("#search-results li")
    return tab.locator("#search-results li").count()


def report(what: str, problems: list[str]) -> bool:
    """Print the count of a kind of problem and the first ones; True if there is none."""
    print(f"{what:<58} {len(problems):>5}")
    for problem in problems[:SHOWN]:
        print(f"    {problem}")
    if len(problems) > SHOWN:
        print(f"    and {len(problems) - SHOWN} more")
    return not problems


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/docs").resolve()
    site = read_site(root)
    away = clicks(site)
    links = sum(len(page.links) for page in site.values())
    print(f"{'pages':<58} {len(site):>5}\n{'links within the site':<58} {links:>5}")
    counts = Counter(away.values())
    print(f"{'clicks from the first page':<58} {dict(sorted(counts.items()))}")
    good = [
        report("dead links", list(dead_links(site, root))),
        report("pages out of reach", [name for name in site if name not in away]),
        report(
            f"pages more than {MOST_CLICKS} clicks away",
            [f"{name}: {count}" for name, count in away.items() if count > MOST_CLICKS],
        ),
        report("pages without a next step", [n for n, page in site.items() if not page.has_next]),
    ]
    with chromium() as browser:
        for width, problems in in_browser(browser, root, site).items():
            good.append(report(f"cut off at {width} px", problems))
        results = search_results(browser.new_page(), root)
    print(f"pages that the search finds for '{SEARCHED}' {results:>23}")
    sys.exit(not (all(good) and results))


if __name__ == "__main__":
    main()
