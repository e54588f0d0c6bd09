# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run the back-test, print its figures beside their bars and write them into the docs.

    python -m backtest.report              # everything, some minutes
    python -m backtest.report --recorded   # print and write what was found last

Ends with 1 when a figure misses its bar, so that nobody overlooks it.
"""

import argparse
import sys
from collections.abc import Sequence

from backtest.figures import measure, read_figures, write_figures
from backtest.line import Line
from backtest.memory_report import memory_lines
from backtest.time_lines import time_lines
from docs.tools.page_parts import ROOT, put, table

PAGE = ROOT / "docs" / "backtest.md"
WIDE = 60
"""Characters of a figure in the terminal's table; a longer one moves its bar to the right."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", action="store_true", help="measure nothing")
    if not parser.parse_args().recorded:
        write_figures(measure())
    lines = time_lines(read_figures()) + memory_lines()
    print(as_text(lines))
    put(PAGE, {"figures": as_markdown(lines)})
    missed = [line.title for line in lines if not line.met]
    if missed:
        sys.exit("\n".join(["", "Not met:", *missed]))


def as_text(lines: Sequence[Line]) -> str:
    wide = max(len(line.title) for line in lines)
    long = min(WIDE, max(len(line.measured) for line in lines))
    return "\n".join(
        f"{line.title:<{wide}}  {line.rows:>5}  {line.measured:<{long}}  {line.bar}"
        + ("" if line.met else "   NOT MET")
        for line in lines
    )


def as_markdown(lines: Sequence[Line]) -> str:
    rows = [
        (
            *(line.title.strip(), f"{line.rows:,}", line.measured),
            line.bar if line.met else f"{line.bar}: **not met**",
        )
        for line in lines
    ]
    return table(("what", "rows", "measured", "target"), rows)


if __name__ == "__main__":
    main()
