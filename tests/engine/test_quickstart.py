# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The quickstart, walked through as its reader does: every command run, every block compared.

`make quickstart ARGS=--write` writes the page anew.
"""

import pytest

from docs.tools.page_parts import QUICKSTART
from docs.tools.tutorial.comparing import difference
from docs.tools.tutorial.walk import walking

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3600)]

AGAIN = "make quickstart ARGS=--write"
PLACE = "/tmp/seatrial"
RUN = "stories-260k"
WHOLE_WAY = "$ seatrial run run.yaml\n"
SHORT = "check"
"""The last step of the way that needs no engine."""
AFTER_SHORT = "\n── 5 of "
"""How the page goes on after it."""


def shortened(text: str) -> str:
    """The page up to the first step that starts the engine, as if it had asked to stop there."""
    begun, found, walked = text.partition(WHOLE_WAY)
    steps, more, _ = walked.partition(AFTER_SHORT)
    assert found
    assert more
    asked = WHOLE_WAY.replace("\n", f" --until {SHORT}\n")
    end = f"Stopped after step {SHORT} (--until).\nnext  seatrial run run.yaml\n```\n"
    return f"{begun}{asked}{steps}{end}"


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
