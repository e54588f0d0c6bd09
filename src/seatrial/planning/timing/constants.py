# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which fitted constants hold for an accelerator, a precision and a stack, and how well."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from seatrial.planning.timing.rates import Rates
from seatrial.spec.training import Precision

DATA = Path(__file__).parent.parent / "data" / "step_time.toml"
"""The constants; `scripts/backtest/fit_step_time.py` writes it."""

GENERATIONS = ("ampere", "hopper", "blackwell")
"""Generations of accelerators, in order."""
_PREFIXES = {"a10": 0, "a100": 0, "a800": 0, "h100": 1, "h200": 1, "h800": 1}
_NARROW = {Precision.FP8: 1, Precision.MXFP8: 2, Precision.NVFP4: 3}


@dataclass(frozen=True, slots=True)
class Constants:
    """Rates for one accelerator, precision and stack, and how far to trust them."""

    rates: Rates
    """The fitted rates."""
    error: float
    """Relative error to expect: the median on model sizes that were not fitted, or wider."""
    provenance: str
    """Which sources they were fitted to, with the number of rows, and what was borrowed."""
    version: str
    """Version of the data file."""
    scale: float = 1.0
    """Measured over predicted time, from a calibration on the user's own steps."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One entry of the data file."""

    accelerator: str
    """Name in the catalog."""
    precision: Precision
    """Number format of the matrix products."""
    stack: str
    """The software."""
    rows: int
    """Published rows of just this accelerator, precision and stack."""
    sources: str
    """Where the rows come from."""
    error: float
    """Median relative error on model sizes that were not fitted."""
    rates: Rates
    """The fitted rates."""


@dataclass(frozen=True, slots=True)
class Table:
    """The data file."""

    version: str
    """Version of the file."""
    unseen_error: float
    """Median relative error on a source that was not fitted at all."""
    fits: tuple[Fit, ...]
    """All entries."""


@cache
def table() -> Table:
    """The constants that come with Seatrial."""
    return read_table(tomllib.loads(DATA.read_text()))


def read_table(content: Mapping[str, Any]) -> Table:
    """The table in a parsed data file."""
    fits = tuple(
        Fit(
            accelerator=entry["accelerator"],
            precision=Precision(entry["precision"]),
            stack=entry["stack"],
            rows=entry["rows"],
            sources=entry["sources"],
            error=entry["error"],
            rates=Rates(**entry["rates"]),
        )
        for entry in content["fit"]
    )
    return Table(content["version"], content["unseen_error"], fits)


@cache
def constants_for(accelerator: str, precision: Precision, stack: str) -> Constants:
    """The constants for an accelerator of the catalog, a precision and a stack.

    Where nothing was fitted for them, the nearest is taken: the same stack first, then the
    nearest generation, then the nearest precision. The error is then that of an unseen source, at
    least, and the provenance says what was borrowed.
    """
    found = min(table().fits, key=lambda fit: _distance(fit, accelerator, precision, stack))
    provenance = f"{found.rows} rows of {found.sources}"
    error = found.error
    if (found.accelerator, found.precision, found.stack) != (accelerator, precision, stack):
        provenance += (
            f"; borrowed: nothing was fitted for {accelerator} in {precision} with {stack}, these "
            f"are of {found.accelerator} in {found.precision} with {found.stack}"
        )
        error = max(error, table().unseen_error)
    return Constants(found.rates, error, provenance, table().version)


def _distance(fit: Fit, accelerator: str, precision: Precision, stack: str) -> tuple[int, ...]:
    """How far a fit is from what is asked for; the first difference counts most."""
    return (
        fit.stack != stack,
        abs(generation(fit.accelerator) - generation(accelerator)),
        abs(_NARROW.get(fit.precision, 0) - _NARROW.get(precision, 0)),
        fit.accelerator != accelerator,
        fit.precision is not precision,
        -fit.rows,
    )


def generation(accelerator: str) -> int:
    """The place of an accelerator's generation in `GENERATIONS`; unknown ones are the newest."""
    return _PREFIXES.get(accelerator.split("-")[0], len(GENERATIONS) - 1)
