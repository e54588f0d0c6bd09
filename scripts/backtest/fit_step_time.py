# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fit the constants of the step time to the published rows and write the planner's data file.

    python -m scripts.backtest.fit_step_time

Every group of `groups.py` is fitted to all of its rows. The errors that the file states are not
those of this fit but those of the back-test, whose predictions never saw the row they are of: they
are read from `data/figures.json`, which `python -m scripts.backtest.report` writes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import median

from scripts.backtest.figures import Figures, read_figures
from scripts.backtest.fitting import Fitted
from scripts.backtest.groups import GROUPS, Group, fit_group, start_of
from scripts.backtest.rows import Row, timed_rows
from seatrial.planning.timing.constants import DATA
from seatrial.planning.timing.rates import Rates

VERSION = "2026.11"
HEAD = f"""\
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0

# Constants of the step time, per accelerator, precision and stack (planning/timing/rates.py says
# what each means). Written by scripts/backtest/fit_step_time.py from the published runs in
# scripts/backtest/data; do not edit. `error` is the median relative error on model sizes that were
# not fitted.
version = "{VERSION}"
"""
ALEPH_ALPHA_KERNEL = "flash_attention2 + RMS kernel"
"""Of the kernels that this source compares, what Megatron-core has today."""
DIGITS = 4


def main() -> None:
    """Fit every group and write the file."""
    figures = read_figures()
    lines = [
        HEAD,
        f"unseen_error = {figures.unseen:.3f}",
        f"calibrated_error = {figures.calibrated:.3f}",
    ]
    for group in GROUPS:
        lines += entries(group, figures)
    DATA.write_text("\n".join(lines) + "\n")
    print(f"{DATA}: {sum('[[fit]]' in line for line in lines)} entries")


def entries(group: Group, figures: Figures) -> Iterator[str]:
    """The entries of a group: one for each accelerator and precision, and experts apart."""
    rows = [row for row in timed_rows() if group.rows(row)]
    fitted = fit_group(group, rows, start_of(rows))
    scored = [row for row in rows if group.predicts(row)]
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in scored:
        key = (row.workload.hardware.accelerator, row.workload.precision)
        kinds.setdefault(key, []).append(row)
    # What each entry claims at best: a few rows that agree are luck, so no better than its group.
    claims = {group.stack: error_of(scored, figures)}
    if group.stack == "aleph-alpha-scaling":
        # Another framework, but the one source with today's kernels on A100s. The planner takes it
        # for Megatron-core, with the error that this source has for who never saw it.
        claims["megatron-core"] = max(
            source.median for source in figures.sources if source.source == scored[0].source
        )
    for stack, least in claims.items():
        for (accelerator, precision), own in sorted(kinds.items()):
            error = max(least, error_of(own, figures))
            yield from entry(stack, accelerator, precision, own, fitted, error)


def error_of(rows: Sequence[Row], figures: Figures) -> float:
    """Median relative error of rows on model sizes that were not fitted."""
    return median(abs(figures.errors[row.id]) for row in rows)


def entry(
    stack: str,
    accelerator: str,
    precision: str,
    rows: Sequence[Row],
    fitted: Fitted,
    error: float,
) -> Iterator[str]:
    """One entry: the rates of the newest of the rows, and how well they predict."""
    kernels = [row for row in rows if row.kernel == ALEPH_ALPHA_KERNEL] or rows
    newest = max(kernels, key=lambda row: (row.release.lstrip("v"), int(row.id)))
    sources = ", ".join(dict.fromkeys(row.source for row in rows))
    yield "\n[[fit]]"
    yield f'accelerator = "{accelerator}"'
    yield f'precision = "{precision}"'
    yield f'stack = "{stack}"'
    yield f"experts = {str(rows[0].moe).lower()}"
    yield f"rows = {len(rows)}"
    yield f'sources = "{sources}"'
    yield f"error = {error:.3f}"
    yield "[fit.rates]"
    rates = Rates(**(asdict(fitted.of(newest)) | {"layer": 1.0}))
    for name, value in asdict(rates).items():
        yield f"{name} = {value:.{DIGITS}g}"
    shapes = {key[1]: math.exp(value) for key, value in fitted.offsets.items() if key[0] == "layer"}
    if shapes:
        yield "[fit.shapes]"
        for shape, factor in sorted(shapes.items()):
            yield f'"{shape}" = {factor:.{DIGITS}g}'


if __name__ == "__main__":
    main()
