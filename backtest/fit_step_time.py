# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fit the constants of the step time to the published rows and write the planner's data file.

    python -m backtest.fit_step_time

Every group of `groups.py` is fitted to all of its rows. The errors that the file states are not
those of this fit but those of the back-test, whose predictions never saw the row they are of: they
are read from `data/figures.json`, which `python -m backtest.report` writes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from backtest import ampere
from backtest.extrapolation import widening
from backtest.figures import Figures, read_figures
from backtest.groups import GROUPS, Group, fit_group, generation_of, start_of
from backtest.rows import Row, timed_rows
from backtest.unseen import NINE_OF_TEN, below
from seatrial.planning.timing.constants import DATA, Reach, reach_of
from seatrial.planning.timing.rates import Rates
from seatrial.spec.training import Precision

HEAD = """\
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0

# Constants of the step time, per accelerator, precision and stack (planning/timing/rates.py says
# what each means). Written by backtest/fit_step_time.py from the published runs in
# backtest/data; do not edit. `error` is the median relative error on model sizes that were
# not fitted (of A100 with megatron-core: on sources that were not fitted), `error_nine_of_ten` what
# nine of ten of these stay below, `largest` how far the fitted rows go. `unseen_error` is that of a
# source of whose family nothing was fitted, `widening` the factor on an error for every doubling
# beyond `largest`.
"""
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    stack: str
    accelerator: str
    precision: str
    rows: Sequence[Row]
    reach: Reach
    rates: Rates
    error: float
    """Median relative error on what was not fitted."""
    nine_of_ten: float
    """What nine of ten of these errors stay below."""
    shapes: Mapping[str, float]
    """By shape of a layer: its time over what the rates say."""


def main() -> None:
    figures = read_figures()
    unseen = figures.by_family
    lines = [
        HEAD,
        f"unseen_error = {unseen.median:.3f}",
        f"unseen_error_nine_of_ten = {unseen.nine_of_ten:.3f}",
        f"calibrated_error = {unseen.calibrated:.3f}",
        f"calibrated_error_nine_of_ten = {unseen.calibrated_nine_of_ten:.3f}",
        f"widening = {widening(figures.extrapolations):.3f}",
    ]
    found = [entry for group in GROUPS for entry in entries(group, figures)]
    found.append(ampere_entry(figures))
    for entry in found:
        lines += as_toml(entry)
    DATA.write_text("\n".join(lines) + "\n")
    print(f"{DATA}: {len(found)} entries")


def entries(group: Group, figures: Figures) -> Iterator[Entry]:
    """The entries of a group: one for each accelerator and precision, and experts apart."""
    rows = [row for row in timed_rows() if group.rows(row)]
    fitted = fit_group(group, rows, start_of(rows))
    scored = [row for row in rows if group.predicts(row)]
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in scored:
        key = (row.workload.hardware.accelerator, row.workload.precision)
        kinds.setdefault(key, []).append(row)
    shapes = {key[1]: math.exp(value) for key, value in fitted.offsets.items() if key[0] == "layer"}
    for (accelerator, precision), own in sorted(kinds.items()):
        kernels = [row for row in own if row.kernel == ampere.TODAY] or own
        newest = max(kernels, key=lambda row: (row.release.lstrip("v"), int(row.id)))
        # Network and links are fitted to all precisions of a generation together.
        alike = [row for row in scored if generation_of(row) == generation_of(own[0])]
        yield Entry(
            stack=group.stack,
            accelerator=accelerator,
            precision=precision,
            rows=own,
            reach=reach_of([row.workload for row in alike]),
            rates=Rates(**(asdict(fitted.of(newest)) | {"layer": 1.0})),
            # A few rows that agree are luck, so no entry claims more than its group.
            error=max(error_of(scored, figures), error_of(own, figures)),
            nine_of_ten=max(nine_of_ten(scored, figures), nine_of_ten(own, figures)),
            shapes=shapes,
        )


def ampere_entry(figures: Figures) -> Entry:
    """Megatron-core on A100, with the error of A100 sources that the fit never saw."""
    rows = [row for row in timed_rows() if row.source in ampere.SOURCES]
    rates = ampere.shipped_rates()
    seen = ampere.errors_by_source(rates)
    return Entry(
        stack="megatron-core",
        accelerator="a100-80gb",
        precision=Precision.BF16,
        rows=rows,
        reach=reach_of([row.workload for row in rows]),
        rates=rates,
        # They have seen these sources and still may be worse than fits that have not.
        error=max(figures.ampere.median, median(map(median, seen))),
        nine_of_ten=max(figures.ampere.nine_of_ten, below(seen, NINE_OF_TEN)),
        shapes={},
    )


def error_of(rows: Sequence[Row], figures: Figures) -> float:
    """Median relative error of rows on model sizes that were not fitted."""
    return median(abs(figures.errors[row.id]) for row in rows)


def nine_of_ten(rows: Sequence[Row], figures: Figures) -> float:
    """What nine of ten errors of rows stay below, on model sizes that were not fitted."""
    return sorted(abs(figures.errors[row.id]) for row in rows)[int(NINE_OF_TEN * len(rows))]


def as_toml(entry: Entry) -> Iterator[str]:
    sources = ", ".join(dict.fromkeys(row.source for row in entry.rows))
    largest = ", ".join(f"{name} = {value}" for name, value in asdict(entry.reach).items())
    yield "\n[[fit]]"
    yield f'accelerator = "{entry.accelerator}"'
    yield f'precision = "{entry.precision}"'
    yield f'stack = "{entry.stack}"'
    yield f"experts = {str(entry.rows[0].moe).lower()}"
    yield f"rows = {len(entry.rows)}"
    yield f'sources = "{sources}"'
    yield f"error = {entry.error:.3f}"
    yield f"error_nine_of_ten = {entry.nine_of_ten:.3f}"
    yield f"largest = {{ {largest} }}"
    yield "[fit.rates]"
    for name, value in asdict(entry.rates).items():
        yield f"{name} = {value:.{DIGITS}g}"
    if entry.shapes:
        yield "[fit.shapes]"
        for shape, factor in sorted(entry.shapes.items()):
            yield f'"{shape}" = {factor:.{DIGITS}g}'


if __name__ == "__main__":
    main()
