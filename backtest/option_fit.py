# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fit the effect of performance options to published runs whose options are known.

    python -m backtest.option_fit           # print the table, some minutes
    python -m backtest.option_fit --write   # and put it into the page of performance options

One number per option changes the constants of the rows that have the option. It is fitted together
with the constants, to the folds without the scored model size, and scored on the labelled rows of
that size. The fitted number is used if the held-out error is clearly smaller than with the assumed
number. Rows without labels are taken to have the options of most labelled rows of their kind.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median

from backtest.cross_validation import held_out_fits, predicted
from backtest.fitting import Fitted, Term
from backtest.groups import GROUPS, expert_release, fit_group, start_of
from backtest.option_labels import PAGE, labels, options_of, reference
from backtest.rows import Row, timed_rows
from docs.tools.page_parts import put, table
from seatrial.planning.options import Options
from seatrial.planning.timing.option_effects import (
    OVERLAPPED_EXCHANGE,
    sent_fewer,
)
from seatrial.spec.performance import CudaGraphs, TokenDispatcher

GROUP = next(group for group in GROUPS if "expert_matrix" in group.keys)
"""The group of NVIDIA's runs with experts."""
CLEARLY = 0.95
"""Factor from which on an error counts as smaller: less is noise."""
FIXED = 1e-4
"""Freedom of a number that is not fitted."""
WHOLE, EARLIER = "fused", "Megatron-Bridge"
"""The releases whose constants differ by whole-step graphs and fused experts."""


@dataclass(frozen=True, slots=True)
class Tried:
    """An option whose effect is fitted."""

    title: str
    term: Term
    """Starts from no effect."""
    assumed: float
    """The number without a fit."""
    words: Callable[[float], str]


def _options(row: Row) -> Options:
    return options_of(row) if row.id in labels() else reference(row)


def _has_layers(row: Row) -> float:
    return float(row.moe and _options(row).cuda_graphs is CudaGraphs.LAYERS)


def _overlaps(row: Row) -> float:
    return float(row.moe and _options(row).expert_overlap)


def _sends_fewer(row: Row) -> float:
    """By how much DeepEP and HybridEP reduce the traffic between nodes, as a logarithm."""
    plain = (TokenDispatcher.ALLTOALL, TokenDispatcher.ALLGATHER)
    if not row.moe or _options(row).token_dispatcher in plain:
        return 0.0
    return log(sent_fewer(row.workload))


TRIED = (
    Tried(
        "`cuda_graphs: layers`: factor on the host's time for a layer with experts",
        Term({"moe_launch": 1.0}, _has_layers),
        log(0.5),
        lambda number: f"{exp(number):.2f}",
    ),
    Tried(
        "`expert_overlap`: fraction of the exchange that is hidden",
        Term({"expert_link": 1.0, "expert_network": 1.0, "expert_latency": -1.0}, _overlaps),
        -log(1 - OVERLAPPED_EXCHANGE),
        lambda number: f"{1 - exp(-number):.2f}",
    ),
    Tried(
        "`token_dispatcher`: exponent on the computed reduction of traffic",
        Term({"expert_network": 1.0}, _sends_fewer),
        1.0,
        lambda number: f"{number:.2f}",
    ),
)


def held_out(*terms: Term) -> tuple[float, list[Fitted]]:
    """The median error of labelled rows with experts, sizes held out, and the fits."""
    errors, fits = [], []
    for rows, fitted in held_out_fits(GROUP, terms):
        fits.append(fitted)
        own = [row for row in rows if row.id in labels()]
        errors += [abs(found.error) for found in predicted(own, fitted)]
    return median(errors), fits


def fit_rows() -> Iterator[tuple[str, ...]]:
    """A line for each option."""
    plain, _ = held_out()
    every = [row for row in timed_rows() if GROUP.rows(row)]
    for tried in TRIED:
        assumed, _ = held_out(replace(tried.term, start=tried.assumed, freedom=FIXED))
        fitted, fits = held_out(tried.term)
        numbers = sorted(fit.terms[0][1] for fit in fits)
        whole = fit_group(GROUP, every, start_of(every), [tried.term]).terms[0][1]
        yield (
            tried.title,
            f"{plain:.1%}",
            f"{tried.words(tried.assumed)}: {assumed:.1%}",
            f"{tried.words(whole)} ({tried.words(numbers[0])} to {tried.words(numbers[-1])} "
            f"without one size): {fitted:.1%}",
            "fitted" if fitted < CLEARLY * assumed else "assumed",
        )


def whole_steps() -> Iterator[tuple[str, ...]]:
    """The factors between runs with a graph of the whole step and earlier ones."""
    every = [row for row in timed_rows() if GROUP.rows(row)]
    offsets = fit_group(GROUP, every, start_of(every)).offsets
    rows = {
        release: sum(row.moe and expert_release(row) == release for row in every)
        for release in (WHOLE, EARLIER)
    }
    for name in sorted({rate for rate, variant in offsets if variant == WHOLE}):
        factor = exp(offsets[name, WHOLE] - offsets[name, EARLIER])
        yield f"`{name}`", f"{factor:.2f}", f"{rows[WHOLE]} and {rows[EARLIER]}"


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    head = ("effect", "without labels", "assumed", "fitted", "used")
    parts = {
        "fits": table(head, list(fit_rows())),
        "steps": table(("constant", "factor", "rows"), list(whole_steps())),
    }
    for made in parts.values():
        print(f"{made}\n")
    if write:
        put(PAGE, parts)


if __name__ == "__main__":
    main()
