# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The crawler of the site, the pictures of terminals, and the table of promises."""

import re
from pathlib import Path

import pytest
from pygments.token import Generic  # type: ignore[import-untyped]

from docs.tools.console_lexer import ConsoleLexer
from docs.tools.page_parts import ROOT
from docs.tools.site.pages import clicks, dead_links, read_site, target_of
from docs.tools.terminal.draw import (
    LIGHT,
    LONGEST_WAIT,
    THEMES,
    Line,
    paced,
    replay,
    still,
    wrapped,
)

ACCURACY = ROOT / "docs/accuracy.md"
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,.]*(?:e-\d+)?")
LINK = re.compile(r"\]\((?P<page>[^)#]+)(?:#(?P<anchor>[^)]+))?\)")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    pages = {
        "index.html": '<a href="a.html#here">a</a> <a href="https://example.org">out</a>',
        "a.html": '<h2 id="here">A</h2><a href="sub/b.html">b</a> Next: b',
        "sub/b.html": '<a href="../a.html#gone">a</a><a href="none.html">x</a>',
        "lost.html": '<a href="index.html">home</a>',
    }
    for name, text in pages.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"<html><body>{text}</body></html>", encoding="utf-8")
    return tmp_path


def test_dead_links_are_found(site: Path) -> None:
    assert sorted(dead_links(read_site(site), site)) == [
        "sub/b.html: ../a.html#gone (no such section)",
        "sub/b.html: none.html",
    ]


def test_clicks_are_counted_from_the_first_page(site: Path) -> None:
    pages = read_site(site)
    assert clicks(pages) == {"index.html": 0, "a.html": 1, "sub/b.html": 2}
    assert pages["a.html"].has_next
    assert not pages["lost.html"].has_next


@pytest.mark.parametrize(
    ("page", "link", "target"),
    [
        ("guides/a.html", "../index.html", ("index.html", "")),
        ("guides/a.html", "#part", ("guides/a.html", "part")),
        ("index.html", "guides/./a.html#x%20y", ("guides/a.html", "x y")),
    ],
)
def test_targets_are_resolved(page: str, link: str, target: tuple[str, str]) -> None:
    assert target_of(page, link) == target


def test_only_commands_are_highlighted_as_shell() -> None:
    text = "$ seatrial plan \\\n    run.yaml\n# a comment\n  $ not typed\n"
    tokens = list(ConsoleLexer().get_tokens(text))
    assert "".join(value for _, value in tokens) == text
    output = [value for kind, value in tokens if kind is Generic.Output]
    assert output == ["# a comment\n", "  $ not typed\n"]
    assert [value for kind, value in tokens if kind is Generic.Prompt] == ["$ "]


RECORDED = [
    Line(0.0, "seatrial run run.yaml", is_command=True),
    Line(2.0, "\x1b[1mlayout\x1b[0m    tp 2 & more"),
    Line(300.0, "done"),
]


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_still_picture_has_every_line(theme: object) -> None:
    picture = still(RECORDED, 60, "a title", LIGHT if theme is LIGHT else THEMES[1])
    assert "tp 2 &amp; more" in picture
    assert '<text class="b" x="0.0"' in picture
    assert "\x1b" not in picture


def test_a_replay_shortens_waits_and_respects_reduced_motion() -> None:
    times = [line.seconds for line in paced(RECORDED)]
    assert times[2] - times[1] == pytest.approx(LONGEST_WAIT)
    picture = replay(RECORDED, 60, 2, "a title", LIGHT)
    assert "@media(prefers-reduced-motion:no-preference)" in picture
    assert ".scroll{transform:translateY(-19px)}" in picture
    assert "script" not in picture


def test_long_lines_break_as_in_a_terminal() -> None:
    lines = wrapped([Line(1.0, "\x1b[31mabcdef\x1b[0mgh")], 4)
    assert [line.text for line in lines] == ["\x1b[31mabcd", "\x1b[31mef\x1b[0mgh"]


def promises() -> list[list[str]]:
    rows = [line for line in ACCURACY.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


@pytest.mark.parametrize("row", promises(), ids=lambda row: row[0])
def test_the_figures_of_a_promise_are_those_of_its_page(row: list[str]) -> None:
    _, measured, command, recorded = row
    link = LINK.search(measured)
    assert link, row
    page = (ACCURACY.parent / link["page"]).read_text(encoding="utf-8")
    numbers = NUMBER.findall(LINK.sub("", measured))
    assert [number for number in numbers if number.rstrip(".,") not in page] == []
    assert re.match(r"`(make|python -m) ", command)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d, [0-9a-f]{7,}", recorded)
