# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The quickstart, walked through as its reader does: every command run, every block compared.

`make quickstart ARGS=--write` writes the page anew.
"""

import pytest

from scripts.count_flow import QUICKSTART
from scripts.tutorial.comparing import difference
from scripts.tutorial.walk import walking
from scripts.walk_quickstart import PLACE, RUN, shortened

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3600)]

AGAIN = "make quickstart ARGS=--write"


def test_the_quickstart_shows_what_its_first_commands_print() -> None:
    shown = shortened(QUICKSTART.read_text(encoding="utf-8"))
    with walking(PLACE, RUN) as walk:
        told = difference(shown, walk.through_text(shown))
    assert not told, f"{AGAIN}\n{told}"


def test_a_changed_quickstart_is_noticed() -> None:
    shown = shortened(QUICKSTART.read_text(encoding="utf-8"))
    assert "tp 1 · pp 1 · dp 2" in shown
    assert difference(shown, shown.replace("dp 2", "dp 1"))


@pytest.mark.slow
def test_the_quickstart_shows_what_its_commands_print() -> None:
    shown = QUICKSTART.read_text(encoding="utf-8")
    with walking(PLACE, RUN) as walk:
        told = difference(shown, walk.through(QUICKSTART))
    print(f"the quickstart took {walk.seconds[QUICKSTART.stem]:.0f} s")
    assert not told, f"{AGAIN}\n{told}"
