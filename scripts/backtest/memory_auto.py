# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What `micro_batch_size: auto` would have picked in AlephAlpha's sweep, and whether it ran.

    python -m scripts.backtest.memory_auto [--shipped]

Rows that differ in nothing but the micro batch are one question. The planner takes, of the micro
batches that it says fit, the fastest; the largest of them is asked for here, which needs most.
Constants are fitted to the sweep's other model sizes; with `--shipped` they are those of the
package, which have seen all of it.
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
from seatrial.planning.workload import Workload

SHIPPED = "--shipped"


@dataclass(frozen=True, slots=True)
class Choice:
    """A layout that was tried with some micro batches."""

    tried: tuple[OutcomeRow, ...]
    """The rows, by their micro batch."""
    fitting: tuple[OutcomeRow, ...]
    """Those that are said to fit, without a risk."""

    @property
    def picked(self) -> OutcomeRow | None:
        """The largest of them; none where a plan is refused or warned of."""
        return self.fitting[-1] if self.fitting else None

    @property
    def ran_out(self) -> bool:
        """Whether the pick did not fit."""
        return self.picked is not None and not self.picked.fitted


def held_out() -> list[Choice]:
    """The picks by constants fitted to other sizes of the sweep."""
    return choices((one.row, one.ratio <= 1 and not one.risky) for one in layouts())


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
    picked = [choice for choice in asked if choice.picked is not None]
    several = sum(len(choice.tried) > 1 for choice in picked)
    bad = [choice.picked for choice in picked if choice.ran_out and choice.picked is not None]
    print(
        f"{len(asked)} layouts, {len(picked)} with a micro batch that is said to fit ({several} "
        f"tried with several), of which {len(bad)} ran out of memory"
    )
    for row in bad:
        print(f"  {row.label}")


if __name__ == "__main__":
    main()
