# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Walk through the quickstart as its reader does: write its file, run its commands, in order.

    python -m scripts.walk_quickstart [--write]

Takes minutes, and the worker's environment (SEATRIAL_WORKER_PYTHON). Prints what the page shows
and its commands no longer print; with `--write` the page is written anew.
"""

import sys

from scripts.count_flow import QUICKSTART
from scripts.tutorial.comparing import difference
from scripts.tutorial.walk import walking

PLACE = "/tmp/seatrial"  # noqa: S108  (what the reader is told)
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
    if not (found and more):
        raise ValueError("the quickstart does not show the steps of seatrial run.")
    asked = WHOLE_WAY.replace("\n", f" --until {SHORT}\n")
    end = f"Stopped after {SHORT}, as asked.\nnext  seatrial run run.yaml\n```\n"
    return f"{begun}{asked}{steps}{end}"


def main() -> None:
    """Walk through the page, and say or write down what differs."""
    shown = QUICKSTART.read_text(encoding="utf-8")
    with walking(PLACE, RUN) as walk:
        printed = walk.through(QUICKSTART)
    told = difference(shown, printed)
    print(f"{QUICKSTART.name}: {walk.seconds[QUICKSTART.stem]:.0f} s\n{told}")
    if "--write" in sys.argv[1:]:
        QUICKSTART.write_text(printed, encoding="utf-8")
    elif told:
        sys.exit(1)


if __name__ == "__main__":
    main()
