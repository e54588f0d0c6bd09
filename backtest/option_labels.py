# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Score published runs whose performance options are known, with and without these options.

    python -m backtest.option_labels           # print counts and scores, about a minute
    python -m backtest.option_labels --write   # and put them into the page of performance options

`data/run_options.csv` has the options of 150 rows of Megatron-Bridge's performance summary: those
that the same release (`tag`) configures for the same model, GPU, precision, layout and batch, in
scripts/performance/configs. The configurations do not state the other options.
"""

import argparse
import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any

from backtest.cross_validation import held_out_fits
from backtest.groups import GROUPS, expert_release, generation_of
from backtest.rows import DATA, Row, timed_rows
from docs.tools.page_parts import ROOT, put, table
from seatrial.planning.options import NAMES, Options
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.constants import constants_for
from seatrial.planning.timing.error_bars import expected_error
from seatrial.planning.timing.option_effects import (
    fitted_options,
    host_transfer_seconds,
    with_options,
    without_data,
)
from seatrial.planning.timing.quantities import quantities
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.step_time import longer, part_times, pieces
from seatrial.planning.workload import Workload
from seatrial.spec.performance import CudaGraphs, TokenDispatcher

PAGE = ROOT / "docs/guides/performance-options.md"
LABELS = DATA / "run_options.csv"
STACK = "megatron-core"
LISTED = ("token_dispatcher", "expert_overlap", "cuda_graphs", "activation_offload")
"""The options that the file lists."""


@cache
def labels() -> Mapping[str, dict[str, Any]]:
    """The listed options of each labelled row, by its number; without experts, fewer."""
    with LABELS.open(newline="", encoding="utf-8") as stream:
        return {line["id"]: _options(line) for line in csv.DictReader(stream)}


def _options(line: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cuda_graphs": CudaGraphs(line["cuda_graphs"]),
        "activation_offload": int(line["activation_offload"]),
    }
    if line["token_dispatcher"]:
        found["token_dispatcher"] = TokenDispatcher(line["token_dispatcher"])
        found["expert_overlap"] = line["expert_overlap"] == "true"
    return found


@cache
def labelled() -> tuple[Row, ...]:
    return tuple(row for row in timed_rows() if row.id in labels())


def options_of(row: Row) -> Options:
    """The options of a labelled row."""
    return replace(fitted_options(row.workload), **labels()[row.id])


def reference(row: Row) -> Options:
    """The options that most labelled rows have which share their constants with this one.

    If none does, of the labelled rows on the same generation of GPUs.
    """
    kinds = (_constants(row), _constants(row)[:2])
    found = ([labels()[other.id] for other in labelled() if _is_of(other, kind)] for kind in kinds)
    alike = next(filter(None, found), [])
    usual = {
        name: Counter(each[name] for each in alike).most_common(1)[0][0]
        for name in (alike[0] if alike else ())
    }
    return replace(fitted_options(row.workload), **usual)


def _constants(row: Row) -> tuple[object, ...]:
    return row.moe, generation_of(row), expert_release(row) if row.moe else ""


def _is_of(row: Row, kind: tuple[object, ...]) -> bool:
    return _constants(row)[: len(kind)] == kind


def counts(*, experts: bool = False) -> dict[str, tuple[int, int]]:
    """By option: the labelled rows that have it on and off, or only those with experts."""
    found = {}
    for name in LISTED:
        known = [labels()[row.id] for row in labelled() if row.moe or not experts]
        values = [replace(Options(), **own) for own in known if name in own]
        on = sum(options.is_on(name) for options in values)
        found[name] = (on, len(values) - on)
    return found


@dataclass(frozen=True, slots=True)
class Pair:
    """Labelled runs that are equal except for an option and perhaps others."""

    title: str
    on: float
    """Median seconds per step of the runs with the option."""
    off: float
    """Median seconds per step of the runs without it."""
    others: tuple[str, ...]
    """The other labelled options that differ."""


def pairs(name: str) -> list[Pair]:
    """Return the groups of labelled runs with the same model, GPUs, precision, layout and batch."""
    groups: dict[Workload, list[Row]] = {}
    for row in labelled():
        if name in labels()[row.id]:
            groups.setdefault(row.workload, []).append(row)
    found = []
    for work, rows in groups.items():
        own = {row.id: replace(Options(), **labels()[row.id]) for row in rows}
        on = [row.seconds for row in rows if own[row.id].is_on(name)]
        off = [row.seconds for row in rows if not own[row.id].is_on(name)]
        others = (
            other
            for other in LISTED
            if other != name and len({getattr(options, other) for options in own.values()}) > 1
        )
        gpus = f"{work.layout.world_size} {work.hardware.accelerator}, {work.precision}"
        title = f"{rows[0].size} on {gpus}, {work.layout}"
        if on and off:
            found.append(Pair(title, median(on), median(off), tuple(others)))
    return found


def pair_rows(name: str) -> Iterator[tuple[str, ...]]:
    """A line for each pair."""
    for pair in pairs(name):
        others = ", ".join(f"`{other}`" for other in pair.others) or "none"
        yield pair.title, f"{pair.off:.2f} s", f"{pair.on:.2f} s", others


@dataclass(frozen=True, slots=True)
class Scored:
    """A prediction of a labelled row."""

    row: Row
    seconds: float
    nine_of_ten: float
    """Half-width of the range that nine of ten runs should lie in."""

    @property
    def error(self) -> float:
        return self.seconds / self.row.seconds - 1

    @property
    def is_inside(self) -> bool:
        return abs(self.error) <= self.nine_of_ten


def seconds(workload: Workload, rates: Rates, fitted: Options) -> float:
    """The step time with constants of runs that had the options `fitted`."""
    own, sizes = with_options(rates, workload, fitted), quantities(workload)
    parts = part_times(sizes, pieces(sizes.layer, own), own)
    computed = parts[TimePart.COMPUTE] + parts[TimePart.ATTENTION]
    return sum(parts.values()) + longer(computed, host_transfer_seconds(workload)) - computed


def scored(row: Row, rates: Rates, *, fitted: Options, with_labels: bool) -> Scored:
    """A labelled row, predicted as if it had the options of the fitted runs, or its own."""
    work = row.workload
    constants = constants_for(work.hardware.accelerator, work.precision, STACK)
    width = expected_error(work, constants).nine_of_ten
    if not with_labels:
        return Scored(row, seconds(work, rates, fitted), width)
    own = replace(work, options=options_of(row))
    time = seconds(own, rates, fitted)
    unknown = {name: getattr(fitted, name) for name in without_data(own, fitted)}
    known = replace(own, options=replace(options_of(row), **unknown))
    return Scored(row, time, width + abs(time - seconds(known, rates, fitted)) / time)


Family = tuple[str, Callable[[Row], bool]]
FAMILIES: tuple[Family, ...] = (
    ("all", lambda _: True),
    ("dense, H100", lambda row: not row.moe and generation_of(row) == "hopper"),
    ("dense, Blackwell", lambda row: not row.moe and generation_of(row) == "blackwell"),
    ("experts, H100", lambda row: row.moe and generation_of(row) == "hopper"),
    ("experts, Blackwell", lambda row: row.moe and generation_of(row) == "blackwell"),
)
HEAD = ("rows", "number", "constants", "without the options", "with the options")


PAIR_HEAD = ("runs", "without `expert_overlap`", "with it", "other differences")


def held_out(*, with_labels: bool) -> list[Scored]:
    """Labelled rows, by constants that saw no model of their size."""
    return [
        scored(row, rates, fitted=reference(row), with_labels=with_labels)
        for row, rates in _held_out_rates()
    ]


@cache
def _held_out_rates() -> tuple[tuple[Row, Rates], ...]:
    groups = [group for group in GROUPS if group.stack == STACK]
    folds = (fold for group in groups for fold in held_out_fits(group))
    return tuple((row, fit.of(row)) for rows, fit in folds for row in rows if row.id in labels())


def shipped(*, with_labels: bool) -> list[Scored]:
    """Labelled rows, by the constants that a plan uses, which have seen them."""
    found = []
    for row in labelled():
        work = row.workload
        constants = constants_for(work.hardware.accelerator, work.precision, STACK)
        rates, fitted = constants.rates_for(work), fitted_options(work)
        found.append(scored(row, rates, fitted=fitted, with_labels=with_labels))
    return found


def score_rows() -> Iterator[tuple[str, ...]]:
    """A line for each family and kind of constants."""
    for title, predict in (("sizes held out", held_out), ("as shipped", shipped)):
        before, after = predict(with_labels=False), predict(with_labels=True)
        for family, chosen in FAMILIES:
            number = sum(chosen(each.row) for each in before)
            yield family, str(number), title, _words(before, chosen), _words(after, chosen)


def _words(found: Sequence[Scored], chosen: Callable[[Row], bool]) -> str:
    own = [each for each in found if chosen(each.row)]
    middle, bias = median(abs(each.error) for each in own), median(each.error for each in own)
    inside = sum(each.is_inside for each in own)
    return f"median {middle:.1%}, bias {bias:+.1%}, {inside} of {len(own)} inside"


def count_rows() -> Iterator[tuple[str, ...]]:
    """A line for each option: known values, and what the shipped constants are taken to have."""
    for name in NAMES:
        on, off = counts().get(name, (0, 0))
        words = Counter(_value(row, name) for row in labelled() if name in labels()[row.id])
        told = ", ".join(f"{value} {count}" for value, count in words.most_common())
        yield f"`{name}`", str(on), str(off), told or "no label"


def _value(row: Row, name: str) -> str:
    return str(labels()[row.id][name]).lower()


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--pairs", action="store_true", help="only the pairs, at once")
    asked = parser.parse_args()
    parts = {"pairs": table(PAIR_HEAD, list(pair_rows("expert_overlap")))}
    if not asked.pairs:
        parts |= _whole()
    for made in parts.values():
        print(f"{made}\n")
    if asked.write:
        put(PAGE, parts)


def _whole() -> dict[str, str]:
    return {
        "labels": table(("option", "on", "off", "values"), list(count_rows())),
        "scores": table(HEAD, list(score_rows())),
    }


if __name__ == "__main__":
    main()
