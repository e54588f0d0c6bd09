# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What `micro_batch_size: auto` would have picked in AlephAlpha's sweep, and whether it ran.

    python -m scripts.backtest.memory_auto [--shipped]

Rows that differ in nothing but the micro batch are one question. The planner takes, of the micro
batches that it says fit, the fastest; the largest is asked for too, which needs most. The
constants of memory are fitted to the sweep's other model sizes; with `--shipped` they are those of
the package, which have seen all of it. Then what it would cost to leave more memory free:
picks of the largest that are smaller than one that ran, and layouts that ran and are refused.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from scripts.backtest import memory_layouts
from scripts.backtest.memory_backtest import layouts
from scripts.backtest.memory_rows import OutcomeRow
from seatrial.planning.memory.estimate import memory
from seatrial.planning.memory.parts import Fit
from seatrial.planning.timing.constants import constants_for
from seatrial.planning.timing.step_time import step_time
from seatrial.planning.workload import Workload

SHIPPED = "--shipped"
CEILINGS = (0.95, 0.9, 0.88, 0.85, 0.8)
"""Parts of a GPU's memory that a pick may need."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A layout that was tried with some micro batches."""

    tried: tuple[OutcomeRow, ...]
    """The rows, by their micro batch."""
    fitting: tuple[OutcomeRow, ...]
    """Those that are said to fit, without a risk."""

    @property
    def fastest(self) -> OutcomeRow | None:
        """The one that the planner takes; none where a plan is refused or warned of."""
        return min(self.fitting, key=seconds, default=None)

    @property
    def largest(self) -> OutcomeRow | None:
        """The one that needs most."""
        return self.fitting[-1] if self.fitting else None

    @property
    def ran(self) -> int:
        """The largest micro batch that ran; 0 where none did."""
        return max((row.workload.micro_batch_size for row in self.tried if row.fitted), default=0)


def seconds(row: OutcomeRow) -> float:
    """The predicted time of a step."""
    work = row.workload
    known = constants_for(work.hardware.accelerator, work.precision, work.stack)
    return step_time(work, known).total


def held_out() -> list[Choice]:
    """The picks by constants fitted to other sizes of the sweep."""
    return choices((one.row, one.ratio <= 1 and not one.risky) for one in layouts())


def below(ceiling: float) -> list[Choice]:
    """The picks, had more of the memory to be left free."""
    return choices(
        (one.row, one.ratio <= ceiling and one.ratio <= 1 and not one.risky) for one in layouts()
    )


def cost(made: list[Choice]) -> str:
    """What came of the largest picks, in words."""
    picked = [(choice, row) for choice in made if (row := choice.largest) is not None]
    smaller = sum(row.workload.micro_batch_size < choice.ran for choice, row in picked)
    refused = sum(choice.largest is None and choice.ran > 0 for choice in made)
    out = sum(not row.fitted for _, row in picked)
    return f"{len(picked)} picks, {out} ran out, {smaller} smaller than ran, {refused} refused"


def shipped() -> list[Choice]:
    """The picks by the constants of the package."""
    rows = memory_layouts.rows()
    return choices((row, memory(row.workload).verdict is Fit.FITS) for row in rows)


def choices(judged: Iterable[tuple[OutcomeRow, bool]]) -> list[Choice]:
    """Rows with what is said of them, as questions."""
    found: dict[Workload, list[tuple[OutcomeRow, bool]]] = defaultdict(list)
    for row, fits in judged:
        found[replace(row.workload, micro_batch_size=1, micro_batches=1)].append((row, fits))
    made = []
    for rows in found.values():
        rows.sort(key=lambda entry: entry[0].workload.micro_batch_size)
        tried = tuple(row for row, _ in rows)
        made.append(Choice(tried, tuple(row for row, fits in rows if fits)))
    return made


def main() -> None:
    """Say how the picks came out."""
    asked = shipped() if SHIPPED in sys.argv[1:] else held_out()
    fastest = [row for choice in asked if (row := choice.fastest)]
    largest = [row for choice in asked if (row := choice.largest)]
    several = sum(len(choice.tried) > 1 and bool(choice.fitting) for choice in asked)
    print(
        f"{len(asked)} layouts, {len(fastest)} with a micro batch that is said to fit ({several} "
        f"tried with several)"
    )
    for what, rows in (("fastest", fastest), ("largest", largest)):
        bad = [row for row in rows if not row.fitted]
        print(f"the {what} of them: {len(bad)} ran out of memory")
        for row in bad:
            print(f"  {row.label}")
    if SHIPPED not in sys.argv[1:]:
        for ceiling in CEILINGS:
            print(f"  up to {ceiling:.0%} of the memory: {cost(below(ceiling))}")


if __name__ == "__main__":
    main()
