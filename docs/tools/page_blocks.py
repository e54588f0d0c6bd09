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


def hold_to_exit_codes(marker: Marker | None, typed: list[str], ended: list[int]) -> None:
    """End everything where a command of a block did not end as the marker above it says.

    Without exit codes there, every command has to succeed; they are those of the last commands.
    """
    told = marker.exits if marker else ()
    wanted = (*[0] * (len(typed) - len(told)), *told)
    for command, code, right in zip(typed, ended, wanted, strict=True):
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
