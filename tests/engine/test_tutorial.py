# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial, walked through as its reader does: every command run, every printed block compared.

`make tutorial ARGS=--write` writes the pages anew.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.tools.tutorial.comparing import difference
from docs.tools.tutorial.walk import PAGES, Walk, walking

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(7200)]


@pytest.fixture(scope="module")
def walk() -> Iterator[Walk]:
    """One directory for all chapters: each goes on where the one before has ended."""
    with walking() as begun:
        yield begun


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_chapter_shows_what_its_commands_print(walk: Walk, page: Path) -> None:
    shown = page.read_text(encoding="utf-8")
    told = difference(shown, walk.through(page))
    print(f"{page.stem} took {walk.seconds[page.stem]:.0f} s")
    assert not told, f"make tutorial ARGS=--write\n{told}"
