# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the back-test of the step time found: every prediction, kept to be read and compared."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median

from scripts.backtest.cross_validation import (
    UnseenSource,
    held_out_rows,
    held_out_sizes,
    unseen_sources,
)
from scripts.backtest.groups import GROUPS, Group
from scripts.backtest.record_split import DATA

FILE = DATA / "figures.json"
"""Relative errors of held-out predictions, by the number of the row."""
TABLE_5 = "megatron-lm-2022"
"""The group of the eight points of arXiv 2205.05198, table 5."""
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Figures:
    """Every held-out prediction of the back-test, as relative errors by row."""

    errors: Mapping[str, float]
    """Model sizes held out."""
    shapeless: Mapping[str, float]
    """The same without factors by shape of a layer, of the sources that have such."""
    table_5: Mapping[str, float]
    """The points of table 5, each held out alone."""
    sources: tuple[UnseenSource, ...]
    """Whole sources held out."""

    @property
    def unseen(self) -> float:
        """Median over sources of the median error on a source that was never seen."""
        return median(source.median for source in self.sources)

    @property
    def calibrated(self) -> float:
        """The same after a calibration."""
        return median(s.calibrated for s in self.sources if s.calibrated is not None)


def measure() -> Figures:
    """Run the back-test."""
    plain = [Group(g.stack, g.rows) for g in GROUPS if "layer" in g.keys]
    table_5 = next(group for group in GROUPS if group.stack == TABLE_5)
    return Figures(
        errors={found.row.id: round(found.error, DIGITS) for found in held_out_sizes()},
        shapeless={found.row.id: round(found.error, DIGITS) for found in held_out_sizes(plain)},
        table_5={found.row.id: round(found.error, DIGITS) for found in held_out_rows(table_5)},
        sources=tuple(unseen_sources()),
    )


def write_figures(figures: Figures) -> None:
    """Keep the figures, a line a source or a thousand characters."""
    FILE.write_text(json.dumps(asdict(figures), indent=0) + "\n")


def read_figures() -> Figures:
    """The figures that were kept."""
    content = json.loads(FILE.read_text())
    sources = tuple(UnseenSource(**source) for source in content.pop("sources"))
    return Figures(**content, sources=sources)
