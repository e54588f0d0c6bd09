# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial shows what its commands print, of those that need no engine: chapter 1, and more.

The others take minutes: tests/engine/test_tutorial.py.
"""

import pytest

from docs.tools.tutorial.comparing import difference
from docs.tools.tutorial.walk import DATA_PAGE, PAGES, QUICK, walking


@pytest.mark.timeout(600)
def test_the_chapters_show_what_their_quick_commands_print() -> None:
    with walking() as walk:
        for page in PAGES:
            shown = page.read_text(encoding="utf-8")
            told = difference(shown, walk.through(page, (QUICK,)))
            assert not told, f"make tutorial ARGS=--write\n{told}"


def test_a_changed_chapter_is_noticed() -> None:
    page = DATA_PAGE.read_text(encoding="utf-8")
    assert "1,956 documents" in page
    assert difference(page, page.replace("1,956 documents", "956 documents"))
