# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the back-test of the step time found: every prediction, kept to be read and compared."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from backtest import ampere
from backtest.cross_validation import Prediction, held_out_rows, held_out_sizes, without_twins
from backtest.extrapolation import Extrapolation, extrapolations
from backtest.groups import GROUPS, Group, fit_pool
from backtest.rows import DATA
from backtest.unseen import Unseen, UnseenSource, alone, family, large_sources, unseen

FILE = DATA / "figures.json"
"""Relative errors of held-out predictions, by the number of the row."""
TABLE_5 = "megatron-lm-2022"
"""The group of the eight points of arXiv 2205.05198, table 5."""
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Figures:
    """Every held-out prediction of the back-test, as relative errors by row."""

    errors: Mapping[str, float]
    shapeless: Mapping[str, float]
    """The same without factors by shape of a layer, of the sources that have such."""
    table_5: Mapping[str, float]
    """The points of table 5, each held out alone."""
    twins: Mapping[str, float]
    """Rows of folds that have a twin in the fit, predicted without the twin."""
    by_source: Unseen
    by_family: Unseen
    ampere: Unseen
    """The sources on which the constants for A100 are measured, held out with their families."""
    extrapolations: tuple[Extrapolation, ...]
    """The larger runs of groups, predicted by their smaller ones."""


def measure() -> Figures:
    plain = [Group(g.stack, g.rows) for g in GROUPS if "layer" in g.keys]
    table_5 = next(group for group in GROUPS if group.stack == TABLE_5)
    large = large_sources()
    return Figures(
        errors=_by_row(held_out_sizes()),
        shapeless=_by_row(held_out_sizes(plain)),
        table_5=_by_row(held_out_rows(table_5)),
        twins=_by_row(without_twins()),
        by_source=unseen(large, alone, fit_pool),
        by_family=unseen(large, family, fit_pool),
        ampere=unseen(ampere.SOURCES, family, fit_pool),
        extrapolations=tuple(extrapolations()),
    )


def _by_row(found: Iterable[Prediction]) -> dict[str, float]:
    return {item.row.id: round(item.error, DIGITS) for item in found}


def write_figures(figures: Figures) -> None:
    """Keep the figures, a value a line, so that a change shows which moved."""
    FILE.write_text(json.dumps(asdict(figures), indent=0) + "\n")


def read_figures() -> Figures:
    content = json.loads(FILE.read_text())
    for name in ("by_source", "by_family", "ampere"):
        content[name] = _read_unseen(content[name])
    content["extrapolations"] = tuple(Extrapolation(**i) for i in content["extrapolations"])
    return Figures(**content)


def _read_unseen(content: dict[str, Any]) -> Unseen:
    """What was kept of sources that were held out."""
    return Unseen(**content | {"sources": tuple(UnseenSource(**s) for s in content["sources"])})
