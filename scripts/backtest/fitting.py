# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fits the rates of the step-time model to rows.

Least squares of the logarithm of predicted over measured time, with a loss that grows only
linearly for outliers. Every rate is drawn towards a prior, so that one on which the rows say
nothing keeps it: the priors are those of `Rates`, or a fit to other sources.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from scripts.backtest.rows import Row
from seatrial.planning.timing.formula import part_times, pieces
from seatrial.planning.timing.quantities import Quantities, quantities
from seatrial.planning.timing.rates import Rates

Array = NDArray[np.float64]

NAMES = tuple(field.name for field in fields(Rates))
SHARES = ("waves", "data_overlap")
"""Rates between 0 and 1; the others are only positive."""
NOISE = 0.05
"""Relative error of a row beyond which it counts as an outlier."""
FREEDOM = 0.5
"""How far a rate may be from its prior, as the standard deviation of its logarithm."""
VARIANT_FREEDOM = 0.3
"""How far a variant (a precision, a kernel) may be from the rate that all share."""


@dataclass(frozen=True, slots=True)
class Variants:
    """Which rates differ between which rows."""

    key: tuple[str, ...]
    """The variant of each row."""
    rates: tuple[str, ...]
    """Rates that each variant has for itself."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fitted rates."""

    shared: Rates
    """What holds for every row."""
    variants: Mapping[str, Rates]
    """What holds for the rows of a variant."""

    def of(self, variant: str) -> Rates:
        """The rates of a variant; the shared ones where there is none of that name."""
        return self.variants.get(variant, self.shared)


def stack(items: Sequence[Any]) -> Any:
    """Many quantities as one, with an array in place of each number."""
    first = items[0]
    if is_dataclass(first) and not isinstance(first, type):
        return type(first)(
            **{f.name: stack([getattr(item, f.name) for item in items]) for f in fields(first)}
        )
    if isinstance(first, tuple):
        return tuple(stack([item[place] for item in items]) for place in range(len(first)))
    return np.array(items, dtype=float)


def stacked(rows: Iterable[Row]) -> Quantities:
    """The quantities of many rows as one."""
    return cast(Quantities, stack([quantities(row.workload) for row in rows]))


def predict(sizes: Quantities, rates: Rates) -> Array:
    """Seconds of a step of every row."""
    each = pieces(sizes, rates)
    return cast(Array, sum(part_times(sizes, each, rates).values()))


def fit(
    rows: Sequence[Row],
    variant_of: Sequence[str],
    varying: Sequence[str],
    prior: Rates,
    *,
    free: Sequence[str] = NAMES,
    freedom: Mapping[str, float] | None = None,
) -> Fitted:
    """Rates fitted to rows; `varying` ones are fitted for each variant."""
    sizes, measured = stacked(rows), np.array([row.seconds for row in rows])
    variants = sorted(set(variant_of))
    index = np.array([variants.index(name) for name in variant_of])
    several = list(varying) if len(variants) > 1 else []
    start = np.array([_inner(name, getattr(prior, name)) for name in free])
    spread = np.array([(freedom or {}).get(name, FREEDOM) for name in free])

    def unpack(theta: Array) -> tuple[dict[str, float], dict[str, Array]]:
        shared = dict(zip(free, theta[: len(free)], strict=True))
        offsets = theta[len(free) :].reshape(len(several), len(variants))
        return shared, dict(zip(several, offsets, strict=True))

    def residuals(theta: Array) -> Array:
        shared, offsets = unpack(theta)
        values: dict[str, Any] = {}
        for name, value in shared.items():
            offset = offsets[name][index] if name in offsets else 0.0
            values[name] = _outer(name, value + offset)
        error = np.log(predict(sizes, replace(prior, **values)) / measured) / NOISE
        drawn = (theta[: len(free)] - start) / spread
        apart = theta[len(free) :] / VARIANT_FREEDOM
        return np.concatenate([error, drawn, apart])

    begin = np.concatenate([start, np.zeros(len(several) * len(variants))])
    found = least_squares(residuals, begin, loss="soft_l1", max_nfev=60, x_scale=0.3)
    shared, offsets = unpack(found.x)
    common = {name: float(_outer(name, value)) for name, value in shared.items()}
    own = {
        variant: replace(
            prior,
            **common
            | {
                name: float(_outer(name, shared[name] + offsets[name][place])) for name in several
            },
        )
        for place, variant in enumerate(variants)
    }
    return Fitted(replace(prior, **common), own)


def _inner(name: str, rate: float) -> float:
    """A rate on the scale that the fit moves on."""
    if name in SHARES:
        rate = min(max(rate, 0.01), 0.99)
        return float(np.log(rate / (1 - rate)))
    return float(np.log(rate))


def _outer(name: str, value: Any) -> Any:
    """A rate from the scale that the fit moves on."""
    return 1 / (1 + np.exp(-value)) if name in SHARES else np.exp(value)


def errors(rows: Sequence[Row], rates: Sequence[Rates]) -> Array:
    """Predicted over measured time, less one, of every row with its own rates."""
    whole = replace(
        Rates(), **{name: np.array([getattr(r, name) for r in rates]) for name in NAMES}
    )
    measured = np.array([row.seconds for row in rows])
    return cast(Array, predict(stacked(rows), whole) / measured - 1)
