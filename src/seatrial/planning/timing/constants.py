# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The fitted constants for an accelerator, a precision and a stack, with their errors."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import log2
from pathlib import Path
from typing import Any

from seatrial.hashing import digest
from seatrial.planning.timing.rates import Rates
from seatrial.planning.workload import Workload
from seatrial.spec.training import Precision


@dataclass(frozen=True, slots=True)
class Excess:
    """One value of a workload that is outside the range of the fitted rows."""

    words: str
    """The value and the fitted range, such as `16,384 GPUs, fitted up to 8,192`."""
    doublings: float
    """Number of doublings from the largest fitted value to this value."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest values among the fitted rows."""

    gpus: int
    """Number of GPUs."""
    tp_size: int
    """Tensor-parallel size."""
    pp_size: int
    """Pipeline-parallel size."""
    cp_size: int
    """Context-parallel size."""
    ep_size: int
    """Expert-parallel size."""
    sequence_length: int
    """Tokens per sequence."""

    def excess(self, workload: Workload) -> tuple[Excess, ...]:
        """Return the values of a workload that are outside the range; empty if none is."""
        layout = workload.layout
        asked = (
            (f"{layout.world_size:,} GPUs", layout.world_size, self.gpus),
            (f"tp {layout.tp_size}", layout.tp_size, self.tp_size),
            (f"pp {layout.pp_size}", layout.pp_size, self.pp_size),
            (f"cp {layout.cp_size}", layout.cp_size, self.cp_size),
            (f"ep {layout.ep_size}", layout.ep_size, self.ep_size),
            (
                f"sequences of {workload.sequence_length:,} tokens",
                workload.sequence_length,
                self.sequence_length,
            ),
        )
        return tuple(
            Excess(f"{words}, fitted up to {largest:,}", log2(value / largest))
            for words, value, largest in asked
            if value > largest
        )


def reach_of(workloads: list[Workload]) -> Reach:
    """Return the largest values among some workloads."""
    return Reach(
        gpus=max(work.layout.world_size for work in workloads),
        tp_size=max(work.layout.tp_size for work in workloads),
        pp_size=max(work.layout.pp_size for work in workloads),
        cp_size=max(work.layout.cp_size for work in workloads),
        ep_size=max(work.layout.ep_size for work in workloads),
        sequence_length=max(work.sequence_length for work in workloads),
    )


def shape_of(workload: Workload) -> str:
    """Return the shape of a layer: width, inner width, tokens per micro-batch, tp."""
    model, layout = workload.model, workload.layout
    tokens = workload.micro_batch_size * workload.sequence_length // layout.cp_size
    return f"{model.hidden_size} x {model.ffn_hidden_size} x {tokens} / {layout.tp_size}"


DATA = Path(__file__).parent.parent / "data" / "step_time.toml"
"""The file with the constants, written by `backtest/fit_step_time.py`."""

GENERATIONS = ("ampere", "hopper", "blackwell")
"""Generations of accelerators, in order."""
VERSION_DIGITS = 12
"""Number of hexadecimal digits in a version."""
_PREFIXES = {
    **dict.fromkeys(("a10", "a30", "a40", "a800", "rtx-30", "rtx-a"), 0),
    **dict.fromkeys(("h100", "h200", "h800", "h20", "l4", "l40", "rtx-40"), 1),
}
"""Generation of the accelerators whose names start so: Ada has the number formats of Hopper. All
others count as the newest."""
_NARROW = {Precision.FP32: -1, Precision.FP8: 1, Precision.MXFP8: 2, Precision.NVFP4: 3}


@dataclass(frozen=True, slots=True)
class Trust:
    """The expected error of fitted rates."""

    error: float
    """Expected median relative error within the reach."""
    nine_of_ten: float
    """Relative error of nine of ten runs; 0 if unknown."""
    reach: Reach | None
    """The largest values among the fitted rows; None if unknown."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The workload of a calibration, whose step time was measured."""

    workload: str
    """Digest of the workload."""
    error: float
    """Median relative deviation of its steps."""
    nine_of_ten: float
    """Relative deviation of nine of ten steps."""


_EXPERTS = "; with experts: "
CALIBRATED = "; calibrated on "
"""Separators in a provenance. It is one text, because the digests of kept plans contain it."""


@dataclass(frozen=True, slots=True)
class TimingConstants:
    """Rates for one accelerator, precision and stack, with their errors."""

    rates: Rates
    """The fitted rates for models without experts."""
    error: float
    """Expected relative error: at least the median for model sizes that were not fitted."""
    provenance: str
    """The fitted sources, the number of rows, and whether a different fit is used instead."""
    version: str
    """Version of the data file: a digest of its content."""
    scale: float = 1.0
    """Measured over predicted time, from a calibration with the user's own steps."""
    expert_rates: Rates | None = None
    """The fitted rates for models with experts; None if there are none."""
    expert_error: float = 0.0
    """The expected relative error for models with experts."""
    shapes: Mapping[str, float] = field(default_factory=dict)
    """Measured over predicted time by the shape of a layer."""
    error_nine_of_ten: float = 0.0
    """Relative error of nine of ten runs; 0 if unknown."""
    expert_error_nine_of_ten: float = 0.0
    """As `error_nine_of_ten`, for models with experts."""
    reach: Reach | None = None
    """The largest values among the fitted rows without experts; None if unknown."""
    expert_reach: Reach | None = None
    """As `reach`, for rows with experts."""
    measured: Measured | None = None
    """The measured workload of the calibration; None without a calibration."""

    def provenance_of(self, *, experts: bool) -> str:
        """Return the provenance for models with or without experts."""
        plain, _, calibrated = self.provenance.partition(CALIBRATED)
        dense, _, own = plain.partition(_EXPERTS)
        fitted = own if experts and own else dense
        return f"{fitted}{CALIBRATED}{calibrated}" if calibrated else fitted

    def rates_for(self, workload: Workload) -> Rates:
        """Return the rates for a workload."""
        rates = self.rates
        if workload.model.moe is not None and self.expert_rates is not None:
            rates = self.expert_rates
        if self.shapes:
            rates = replace(rates, layer=self.shapes.get(shape_of(workload), 1.0))
        return rates

    def error_for(self, workload: Workload) -> float:
        """Return the expected median relative error for a workload within the reach."""
        with_experts = workload.model.moe is not None and self.expert_rates is not None
        return self.expert_error if with_experts else self.error

    def trust_for(self, workload: Workload) -> Trust:
        """Return the expected error for a workload, which `timing/error_bars.py` widens."""
        if workload.model.moe is not None and self.expert_rates is not None:
            return Trust(self.expert_error, self.expert_error_nine_of_ten, self.expert_reach)
        return Trust(self.error, self.error_nine_of_ten, self.reach)


@dataclass(frozen=True, slots=True)
class TimingFit:
    """One entry in the data file."""

    accelerator: str
    """Name in the catalog."""
    precision: Precision
    """Number format of the GEMMs."""
    stack: str
    rows: int
    """Number of published rows with exactly this accelerator, precision and stack."""
    sources: str
    """The sources of the rows."""
    error: float
    """Median relative error for model sizes that were not fitted."""
    error_nine_of_ten: float
    """Relative error of nine of ten rows with such sizes."""
    reach: Reach
    """The largest values among the fitted rows."""
    rates: Rates
    experts: bool
    """True if the fit is for models with experts."""
    shapes: Mapping[str, float]
    """Measured over predicted time by the shape of a layer."""


@dataclass(frozen=True, slots=True)
class Table:
    """The data file."""

    version: str
    """Version of the file: a digest of its content, so that every change is noticed."""
    unseen_error: float
    """Median relative error for a source from a family that was not fitted."""
    unseen_error_nine_of_ten: float
    """Relative error of nine of ten rows in such sources."""
    calibrated_error: float
    """Median relative error for such a source after a calibration with five of its rows."""
    calibrated_error_nine_of_ten: float
    """Relative error of nine of ten of its other rows after that calibration."""
    widening: float
    """Factor on the error per doubling beyond the largest fitted value."""
    fits: tuple[TimingFit, ...]


@cache
def table() -> Table:
    """Return the constants that Seatrial ships."""
    return read_table(tomllib.loads(DATA.read_text()))


def read_table(content: Mapping[str, Any]) -> Table:
    """Return the table in a parsed data file."""
    fits = tuple(
        TimingFit(
            accelerator=entry["accelerator"],
            precision=Precision(entry["precision"]),
            stack=entry["stack"],
            rows=entry["rows"],
            sources=entry["sources"],
            error=entry["error"],
            error_nine_of_ten=entry["error_nine_of_ten"],
            reach=Reach(**entry["largest"]),
            rates=Rates(**entry["rates"]),
            experts=entry["experts"],
            shapes=entry.get("shapes", {}),
        )
        for entry in content["fit"]
    )
    return Table(
        version=digest(content).partition(":")[2][:VERSION_DIGITS],
        unseen_error=content["unseen_error"],
        unseen_error_nine_of_ten=content["unseen_error_nine_of_ten"],
        calibrated_error=content["calibrated_error"],
        calibrated_error_nine_of_ten=content["calibrated_error_nine_of_ten"],
        widening=content["widening"],
        fits=fits,
    )


@cache
def constants_for(accelerator: str, precision: Precision, stack: str) -> TimingConstants:
    """Return the constants for an accelerator in the catalog, a precision and a stack.

    If there is no exact fit, the nearest fit is used: with the same stack first, then the nearest
    generation, then the nearest precision. The error is then at least that of an unseen source,
    and the provenance names the fit.
    """
    dense = _nearest(accelerator, precision, stack, experts=False)
    trust = _trust(dense, accelerator, precision, stack)
    found = TimingConstants(
        rates=dense.rates,
        error=trust.error,
        provenance=_provenance(dense, accelerator, precision, stack),
        version=table().version,
        shapes=dense.shapes,
        error_nine_of_ten=trust.nine_of_ten,
        reach=trust.reach,
    )
    experts = _nearest(accelerator, precision, stack, experts=True)
    if experts.stack != stack:
        return found
    trust = _trust(experts, accelerator, precision, stack)
    return replace(
        found,
        expert_rates=experts.rates,
        expert_error=trust.error,
        expert_error_nine_of_ten=trust.nine_of_ten,
        expert_reach=trust.reach,
        provenance=f"{found.provenance}{_EXPERTS}"
        + _provenance(experts, accelerator, precision, stack),
    )


def _nearest(accelerator: str, precision: Precision, stack: str, *, experts: bool) -> TimingFit:
    """Return the nearest fit."""
    fits = [fit for fit in table().fits if fit.experts is experts]
    return min(fits, key=lambda fit: _distance(fit, accelerator, precision, stack))


def _is_exact(fit: TimingFit, accelerator: str, precision: Precision, stack: str) -> bool:
    """Return True if a fit matches, regardless of the 16-bit format and the memory size."""
    return (
        fit.stack == stack
        and fit.accelerator.split("-")[0] == accelerator.split("-")[0]
        and _NARROW.get(fit.precision, 0) == _NARROW.get(precision, 0)
    )


def _trust(fit: TimingFit, accelerator: str, precision: Precision, stack: str) -> Trust:
    """Return the expected error of a fit, which is larger if the fit does not match exactly."""
    if _is_exact(fit, accelerator, precision, stack):
        return Trust(fit.error, fit.error_nine_of_ten, fit.reach)
    known = table()
    return Trust(
        max(fit.error, known.unseen_error),
        max(fit.error_nine_of_ten, known.unseen_error_nine_of_ten),
        fit.reach,
    )


def _provenance(fit: TimingFit, accelerator: str, precision: Precision, stack: str) -> str:
    """Return the sources of a fit, and whether the fit is for different hardware or software."""
    text = f"{fit.rows} rows of {fit.sources}"
    if _is_exact(fit, accelerator, precision, stack):
        return text
    return (
        f"{text} on {fit.accelerator} in {fit.precision} with {fit.stack}: no published run was "
        f"fitted for {accelerator} in {precision} with {stack}"
    )


def _distance(
    fit: TimingFit, accelerator: str, precision: Precision, stack: str
) -> tuple[int, ...]:
    """Return the distance of a fit; the first difference counts the most."""
    return (
        fit.stack != stack,
        abs(generation(fit.accelerator) - generation(accelerator)),
        abs(_NARROW.get(fit.precision, 0) - _NARROW.get(precision, 0)),
        fit.accelerator != accelerator,
        fit.precision is not precision,
        -fit.rows,
    )


def generation(accelerator: str) -> int:
    """Return the index of an accelerator's generation; unknown ones count as the newest."""
    known = (number for prefix, number in _PREFIXES.items() if accelerator.startswith(prefix))
    return next(known, len(GENERATIONS) - 1)
