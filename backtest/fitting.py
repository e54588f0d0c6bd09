# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fits the rates of the step-time model to rows.

Least squares of the logarithm of predicted over measured time, with a loss that grows only
linearly for outliers. Every rate is drawn towards a prior, so that one on which the rows say
nothing keeps it: the priors are those of `Rates`, or a fit to other sources.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from backtest.rows import Row
from seatrial.planning.timing.quantities import Quantities, quantities
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.step_time import part_times, pieces

Array = NDArray[np.float64]

NAMES = tuple(field.name for field in fields(Rates))
SHARES = ("matrix", "waves", "transfer_overlap", "data_overlap", "gather_overlap")
"""Rates between 0 and 1; the others are only positive."""
NOISE = 0.05
"""Relative error of a row beyond which it counts as an outlier."""
FREEDOM = 0.5
"""How far a rate may be from its prior, as the standard deviation of its logarithm."""
FREER = 1.0
"""The same for rates of experts, whose defaults are guesses."""
EXPERT_RATES = (
    *("expert_matrix", "expert_launch", "expert_link", "expert_network", "expert_latency"),
    *("moe_launch", "routing"),
)
FIXED = 1e-3
"""The same for a factor that only variants have: there is nothing shared about it."""
ROUNDS = 60
"""Rounds after which a fit ends, if nothing is gained any more before."""
STEP = 1e-5
"""How far a rate is moved to see what follows from it."""
VARIANT_FREEDOM = 0.3
"""How far a variant (a precision, a kernel) may be from the rate that all share."""
SHAPE_FREEDOM = 0.1
"""The same for the shape of a layer: what a formula cannot know is small."""


Keys = Mapping[str, Callable[[Row], str]]
"""By the name of a rate: what tells rows apart that have a value of their own for it."""


@dataclass(frozen=True, slots=True)
class Term:
    """One number that changes the rates of some rows, such as those with an option."""

    rates: Mapping[str, float]
    """By rate: the factor on the number, on the fit's scale."""
    weight: Callable[[Row], float]
    """How much the number counts for a row; 0 without the option."""
    start: float = 0.0
    freedom: float = FREEDOM
    """How far the number may be from its start."""


@dataclass(frozen=True, slots=True)
class Fitted:
    shared: Rates
    """What holds where no variant says else."""
    offsets: Mapping[tuple[str, str], float]
    """By rate and variant: how far the variant is from the shared rate, on the fit's scale."""
    keys: Keys
    terms: tuple[tuple[Term, float], ...] = ()
    """The terms with their fitted numbers."""

    def of(self, row: Row) -> Rates:
        moved: dict[str, float] = {}
        for name, key in self.keys.items():
            moved[name] = self.offsets.get((name, key(row)), 0.0)
        for term, number in self.terms:
            for name, factor in term.rates.items():
                moved[name] = moved.get(name, 0.0) + factor * number * term.weight(row)
        return replace(
            self.shared,
            **{
                name: float(_outer(name, _inner(name, getattr(self.shared, name)) + offset))
                for name, offset in moved.items()
            },
        )


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
    return cast(Quantities, stack([_sizes(row) for row in rows]))


_SIZES: dict[str, Quantities] = {}


def _sizes(row: Row) -> Quantities:
    if row.id not in _SIZES:
        _SIZES[row.id] = quantities(row.workload)
    return _SIZES[row.id]


def predict(sizes: Quantities, rates: Rates) -> Array:
    each = pieces(sizes.layer, rates)
    return cast(Array, sum(part_times(sizes, each, rates).values()))


def fit(
    rows: Sequence[Row],
    keys: Keys,
    prior: Rates,
    *,
    freedom: float = FREEDOM,
    rounds: int = ROUNDS,
    terms: Sequence[Term] = (),
) -> Fitted:
    """Rates fitted to rows, in so many rounds at most."""
    asked = _Question(rows, keys, prior, freedom, tuple(terms))
    # Linear far out for rows and rates alike: a few may be far off, most are near.
    found = least_squares(
        asked.residuals,
        asked.prior,
        asked.slopes,
        loss="soft_l1",
        max_nfev=rounds,
        x_scale=0.3,
        ftol=1e-4,
    )
    shared, offsets, numbers = asked.parts(found.x)
    values = zip(NAMES, shared, strict=True)
    return Fitted(
        Rates(**{name: float(_outer(name, value)) for name, value in values}),
        {variant: float(offsets[place]) for variant, place in asked.places.items()},
        keys,
        tuple(zip(asked.terms, map(float, numbers), strict=True)),
    )


class _Question:
    """What a fit asks: numbers with which the rows are predicted, near to their priors."""

    def __init__(
        self, rows: Sequence[Row], keys: Keys, prior: Rates, freedom: float, terms: tuple[Term, ...]
    ) -> None:
        self.sizes, self.measured = stacked(rows), np.array([row.seconds for row in rows])
        self.places, self.index = _variants(rows, keys)
        self.terms = terms
        self.weights = [np.array([term.weight(row) for row in rows]) for term in terms]
        variants = [SHAPE_FREEDOM if n == "layer" else VARIANT_FREEDOM for n, _ in self.places]
        self.prior = np.array(
            [_inner(name, getattr(prior, name)) for name in NAMES]
            + [0.0] * len(variants)
            + [term.start for term in terms]
        )
        self.spread = np.array(
            [_spread(name, freedom) for name in NAMES] + variants + [term.freedom for term in terms]
        )

    def parts(self, theta: Array) -> tuple[Array, Array, Array]:
        """The shared rates, the offsets of variants and the numbers of terms."""
        first, last = len(NAMES), len(theta) - len(self.terms)
        return theta[:first], theta[first:last], theta[last:]

    def logs(self, theta: Array) -> Array:
        """Predicted over measured time of each row, as a logarithm in units of the noise."""
        shared, offsets, numbers = self.parts(theta)
        values = {}
        for name, value in zip(NAMES, shared, strict=True):
            inner = value + (offsets[self.index[name]] if name in self.index else 0.0)
            for term, number, weight in zip(self.terms, numbers, self.weights, strict=True):
                if name in term.rates:
                    inner = inner + term.rates[name] * number * weight
            values[name] = _outer(name, inner)
        return cast(Array, np.log(predict(self.sizes, Rates(**values)) / self.measured) / NOISE)

    def residuals(self, theta: Array) -> Array:
        return np.concatenate([self.logs(theta), (theta - self.prior) / self.spread])

    def slopes(self, theta: Array) -> Array:
        # A variant's or a term's own step changes its rows just as the shared one does.
        base, rows, count = self.logs(theta), len(self.measured), len(NAMES)
        matrix = np.zeros((rows + len(theta), len(theta)))
        for place, name in enumerate(NAMES):
            moved = theta.copy()
            moved[place] += STEP
            column = (self.logs(moved) - base) / STEP
            matrix[:rows, place] = column
            if name in self.index:
                matrix[np.arange(rows), count + self.index[name]] = column
            for number, (term, weight) in enumerate(zip(self.terms, self.weights, strict=True)):
                own = len(theta) - len(self.terms) + number
                matrix[:rows, own] += term.rates.get(name, 0.0) * weight * column
        every = np.arange(len(theta))
        matrix[rows + every, every] = 1 / self.spread
        return matrix


def _variants(
    rows: Sequence[Row], keys: Keys
) -> tuple[dict[tuple[str, str], int], dict[str, NDArray[np.int64]]]:
    """The place of each variant among all offsets, and for each rate the places of the rows."""
    places: dict[tuple[str, str], int] = {}
    index: dict[str, NDArray[np.int64]] = {}
    for name, key in keys.items():
        found = [key(row) for row in rows]
        if len(set(found)) > 1:
            own = {variant: len(places) + n for n, variant in enumerate(sorted(set(found)))}
            places |= {(name, variant): place for variant, place in own.items()}
            index[name] = np.array([own[variant] for variant in found])
    return places, index


def _spread(name: str, freedom: float) -> float:
    """How far a rate may be from its prior."""
    if name == "layer":
        return FIXED
    return freedom * FREER / FREEDOM if name in EXPERT_RATES else freedom


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
    columns: dict[str, Any] = {n: np.array([getattr(r, n) for r in rates]) for n in NAMES}
    whole = Rates(**columns)
    measured = np.array([row.seconds for row in rows])
    return cast(Array, predict(stacked(rows), whole) / measured - 1)
