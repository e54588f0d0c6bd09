# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sources of which nothing was fitted, and families of sources of which nothing was fitted.

A family is what shares authors or a software stack and machines. Held out alone, a source of one is
predicted by its siblings, some of which published the very same configurations; held out with its
family, it is predicted as a stranger's run would be.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from backtest.cross_validation import Prediction, predicted
from backtest.fitting import Fitted
from backtest.rows import Row, timed_rows
from seatrial.planning.calibration import factor

FEWEST_UNSEEN = 5
"""Rows that a source needs to be scored as an unseen one."""
FEWEST_CALIBRATION = 3
"""Calibration rows that can be predicted, of the five that the split names."""
NINE_OF_TEN = 0.9
FAMILIES = (
    # NVIDIA's own stack on Hopper and Blackwell, and what the same teams published beside it.
    (
        "Megatron-Bridge perf summary",
        "Megatron-Bridge skills",
        "NVIDIA dgxc-benchmarking",
        "NeMo perf docs",
        "NeMo AutoModel",
        "Megatron-MoE-ModelZoo",
        "MLPerf Training v5.0",
        "MLPerf Training v4.1",
        "Megatron-LM README H100",
    ),
    ("vTrain single-node", "vTrain multi-node"),
    # The papers of Megatron-LM: the same authors, software and cluster (Selene), a year apart.
    ("Megatron-LM SC21 Table 1", "Korthikanti 2205.05198 Table 5"),
)
"""Families of several sources; every other source is a family of its own."""


def alone(source: str) -> frozenset[str]:
    return frozenset([source])


def family(source: str) -> frozenset[str]:
    return frozenset(next((own for own in FAMILIES if source in own), (source,)))


@dataclass(frozen=True, slots=True)
class UnseenSource:
    """How well a source is predicted of which nothing was fitted."""

    source: str
    rows: int
    median: float
    bias: float
    """Median of predicted over measured time, less one."""
    calibrated: float | None
    """The median error after a calibration on its calibration rows, which are not scored; nothing
    where it has too few rows for one."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """How well sources are predicted of which nothing was fitted."""

    sources: tuple[UnseenSource, ...]
    nine_of_ten: float
    """Error that nine of ten rows stay below, every source counting the same."""
    calibrated_nine_of_ten: float

    @property
    def median(self) -> float:
        return median(source.median for source in self.sources)

    @property
    def calibrated(self) -> float:
        """The same after a calibration, of the sources that have rows for one."""
        return median(s.calibrated for s in self.sources if s.calibrated is not None)

    @property
    def too_small(self) -> tuple[str, ...]:
        """Sources that have too few rows for a calibration."""
        return tuple(source.source for source in self.sources if source.calibrated is None)


def unseen(
    sources: Sequence[str],
    without: Callable[[str], frozenset[str]],
    fit: Callable[[frozenset[str]], Fitted],
) -> Unseen:
    """Every source, predicted by a fit without it and whatever `without` names beside."""
    found, every, after = [], [], []
    for source in sources:
        own = [row for row in timed_rows() if row.source == source]
        items = predicted(own, fit(without(source)))
        errors = _after_calibration(items)
        found.append(
            UnseenSource(
                source,
                len(own),
                float(np.median([abs(item.error) for item in items])),
                float(np.median([item.error for item in items])),
                None if errors is None else float(np.median(errors)),
            )
        )
        every.append([abs(item.error) for item in items])
        if errors is not None:
            after.append(errors)
    return Unseen(tuple(found), below(every, NINE_OF_TEN), below(after, NINE_OF_TEN))


def large_sources() -> list[str]:
    rows: dict[str, list[Row]] = {}
    for row in timed_rows():
        rows.setdefault(row.source, []).append(row)
    return [source for source, own in rows.items() if len(own) >= FEWEST_UNSEEN]


def _after_calibration(found: Sequence[Prediction]) -> list[float] | None:
    """Errors of a source after the planner's own calibration, on rows that it did not see."""
    seen = [item.error for item in found if item.row.calibration]
    if len(seen) < FEWEST_CALIBRATION:
        return None
    scale = factor([1 / (1 + error) for error in seen])
    return [abs((1 + item.error) * scale - 1) for item in found if not item.row.calibration]


def below(errors: Sequence[Sequence[float]], share: float) -> float:
    """The error that a share of all rows stays below, where every source counts the same."""
    weighted = sorted((error, 1 / len(own)) for own in errors for error in own)
    reached, wanted = 0.0, share * len(errors)
    for error, weight in weighted:
        reached += weight
        if reached >= wanted:
            return error
    return weighted[-1][0]
