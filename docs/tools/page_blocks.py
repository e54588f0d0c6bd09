# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the pages, and the comments above them."""

import re
from dataclasses import dataclass
from pathlib import Path

from docs.tools.page_parts import ROOT
from docs.tools.reference.markdown import GENERATED

BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(
    r"<!-- (?P<kind>run|edit|compared|executed by|not executed|manifest|stand-in cluster)"
    r"(?:: (?P<value>.+?))?(?:, exit (?P<exits>\d+(?: \d+)*))? -->\s*\Z",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Marker:
    """The comment that stands directly above a block."""

    kind: str
    """What it says, as `docs.tools.refresh_console` explains it."""
    value: str
    """What stands behind the colon; empty without."""
    exits: tuple[int, ...] = ()
    """The exit codes of the block's last commands, where they are meant to fail."""


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    """The line of its fence, counted from 1."""
    language: str
    text: str
    marker: Marker | None
    is_generated: bool
    """Whether its page is written from the code."""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def all_pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def marker_before(text: str) -> Marker | None:
    """The marker at the end of what stands above a block."""
    found = MARKER.search(text[text.rfind("<!--") :]) if "<!--" in text else None
    if not found:
        return None
    exits = tuple(int(code) for code in (found["exits"] or "").split())
    return Marker(found["kind"], " ".join((found["value"] or "").split()), exits)


def exit_codes(marker: Marker | None, commands: int) -> list[int]:
    """The exit codes that so many commands of a block have to end with."""
    told = marker.exits if marker else ()
    return [0] * (commands - len(told)) + list(told)


def hold_to_exit_codes(marker: Marker | None, typed: list[str], ended: list[int]) -> None:
    """End everything where a command of a block did not end as it should.

    Args:
        marker: What stands above the block; without one, every command has to succeed.
        typed: Its commands.
        ended: Their exit codes.
    """
    for command, code, right in zip(typed, ended, exit_codes(marker, len(typed)), strict=True):
        if code != right:
            raise SystemExit(f"the page's `{command}` ended with {code}, not with {right}.")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, from top to bottom."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, match.start()) + 1,
            match["info"].strip(),
            match["text"],
            marker_before(text[: match.start()]),
            text.startswith(GENERATED),
        )
        for match in BLOCK.finditer(text)
    ]
