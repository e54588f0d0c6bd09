# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The built site as a graph: pages, links, anchors, and clicks from the first page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FIRST = "index.html"
NOT_PAGES = frozenset(("genindex.html", "search.html"))
"""Pages that Sphinx makes and that have no text of their own."""


@dataclass
class Page:
    """What a page links to and offers as a target."""

    links: set[str] = field(default_factory=set)
    """Links to this site, as they are written."""
    images: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)
    has_next: bool = False
    """True if the text has a next step, or the footer links to the next page."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.page.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self._link(values["href"])
            self.page.has_next |= "next-page" in values.get("class", "").split()
        if tag == "img" and not values.get("src", "").startswith("data:"):
            self.page.images.add(values.get("src", ""))

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def close(self) -> None:
        super().close()
        text = " ".join(self._text)
        self.page.has_next |= "Next:" in text or "Next step" in text

    def _link(self, address: str) -> None:
        parts = urlsplit(address)
        if not parts.scheme and not parts.netloc and address not in ("", "#"):
            self.page.links.add(address)


def read_site(root: Path) -> dict[str, Page]:
    """The pages below a directory, by their paths."""
    site = {}
    for file in sorted(root.rglob("*.html")):
        name = file.relative_to(root).as_posix()
        if name in NOT_PAGES or name.startswith("_"):
            continue
        reader = _Reader()
        reader.feed(file.read_text(encoding="utf-8"))
        reader.close()
        site[name] = reader.page
    return site


def target_of(page: str, link: str) -> tuple[str, str]:
    """The path below the root that a link leads to, and the anchor there (may be empty)."""
    parts = urlsplit(link)
    path = (
        (Path("/") / page).parent.joinpath(unquote(parts.path)) if parts.path else Path("/", page)
    )
    normal: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            normal = normal[:-1]
        elif part != ".":
            normal.append(part)
    return "/".join(normal), unquote(parts.fragment)


def dead_links(site: Mapping[str, Page], root: Path) -> Iterator[str]:
    """Each link or picture of this site that leads nowhere."""
    for name, page in site.items():
        for link in sorted(page.links | page.images):
            path, anchor = target_of(name, link)
            if not (root / path).exists():
                yield f"{name}: {link}"
            elif anchor and path in site and anchor not in site[path].anchors:
                yield f"{name}: {link} (no such section)"


def clicks(site: Mapping[str, Page]) -> dict[str, int]:
    """Clicks from the first page to each page; pages out of reach are missing."""
    found, now = {FIRST: 0}, [FIRST]
    while now:
        after = []
        for name in now:
            for link in site[name].links:
                path, _ = target_of(name, link)
                if path in site and path not in found:
                    found[path] = found[name] + 1
                    after.append(path)
        now = after
    return found
