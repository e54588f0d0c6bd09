# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The colours of the page of `seatrial plan` on a terminal."""

import re
from functools import partial

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31;1", "32;1", "33;1", "36"
_PAINTS = (
    (re.compile(r"^(?=\S).{1,10}", re.MULTILINE), BOLD),
    (re.compile(r" ± [\d.,]+(?: [kMBT]\b| %)?(?: \(\d+ %\))?"), CYAN),
    (re.compile(r"(?<=   )fits$"), GREEN),
    (re.compile(r"(?<=   )might not fit$"), YELLOW),
    (re.compile(r"(?<=   )does not fit$"), RED),
    (re.compile(r"(?<= of )[\d.,]+ GiB|(?<=at most )2 hours"), BOLD),
    (re.compile(r"\d+ errors?\b"), RED),
    (re.compile(r"\d+ warnings?\b"), YELLOW),
    (re.compile(r"\((?:(?:[a-z]+, )*[a-z]+: )?(?:you|planner|catalog|default)\)$"), DIM),
)
"""What is painted in which colour: labels, error bars, verdicts, limits, counts, origins."""


def _painted(colour: str, found: re.Match[str]) -> str:
    return f"\033[{colour}m{found[0]}\033[0m"


def paint(text: str) -> str:
    """Return the lines with colours."""
    for pattern, colour in _PAINTS:
        text = pattern.sub(partial(_painted, colour), text)
    return text


def paint_head(text: str) -> str:
    """Return the first lines with the name of the run in bold."""
    return re.sub(r"^\S+", partial(_painted, BOLD), text, count=1)
