# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calibration: one factor between predicted and measured step time, from a few of your own steps.

The factor covers what published runs cannot show: clocks, cooling, network and software releases in
your cluster. It is stored with a digest of the machines, so that it is not used for different ones.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from pydantic_core import to_jsonable_python

from seatrial.errors import UsageError
from seatrial.hashing import digest
from seatrial.planning.timing.constants import CALIBRATED, Measured, TimingConstants
from seatrial.planning.timing.error_bars import after_calibration
from seatrial.storage.state_files import DamagedError, decode, read_json, write_state

FILE = "calibration.json"
"""Name of the file in the run's directory next to the spec."""
FEWEST = 3
"""Minimum number of steps, without warm-up and outliers."""
WARM_UP = 2
"""Steps after a start that are slow because of compiling, allocating and connecting."""
OUTLIER = 5.0
"""A step further from the median than this multiple of the median deviation is an outlier."""
ALIKE = 0.02
"""Relative difference below which a step is never an outlier."""
SURPRISE = 0.15
"""Expected relative distance of a factor from 1: the error on unseen machines."""
NORMAL = 1.4826
"""Ratio of the standard to the median deviation of a normal distribution."""
NINE_OF_TEN, HALF = 1.645, 0.6745
"""Standard deviations that contain nine of ten, and half, of normally distributed values."""
OF_MEDIAN = 1.2533
"""Ratio of the standard error of a median to that of a mean: sqrt(pi / 2)."""
NOISIEST = 0.1
"""Maximum median deviation of the steps.

Step times in a healthy run differ by one or two per cent. If half of the steps deviate by more than
this, other causes determine their time (input stalls, other jobs, a bad node), and the factor would
apply these causes to every plan.
"""
WIDEST = 20.0
"""A factor above this, or below its inverse, is a mistake."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The steps that are used, and the number of steps that are not."""

    seconds: tuple[float, ...]
    """Times of the steps that are used."""
    warm_up: int
    """Number of steps that are excluded because they came right after a start."""
    outliers: int
    """Number of steps that are excluded because they took much more or less time than others."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """One factor between predicted and measured time, and its origin."""

    scale: float
    """Measured over predicted time."""
    measured: float
    """Median time of the steps that are used, in seconds."""
    predicted: float
    """Predicted time without calibration, in seconds."""
    steps: int
    warm_up: int
    """Number of steps that are excluded because they came right after a start."""
    outliers: int
    """Number of steps that are excluded because they took much more or less time than others."""
    spread: float
    """Median relative deviation of the steps from their median."""
    measured_on: Mapping[str, str]
    """Accelerator, node type, fabric, engine and precision of the measurement."""
    digest: str
    """Digest of `measured_on`."""
    version: str
    """Version of the constants behind the prediction."""
    constants: str = ""
    """Digest of the rates behind the prediction; the factor only corrects these."""
    workload: str = ""
    """Digest of the measured workload."""

    @property
    def error_before(self) -> float:
        """Relative error of the prediction without calibration."""
        return self.predicted / self.measured - 1

    @property
    def error_after(self) -> float:
        """Relative error of the prediction with calibration; noisy steps pull the factor to 1."""
        return self.scale * self.predicted / self.measured - 1

    @property
    def deviation(self) -> float:
        """Relative standard error of the factor."""
        return OF_MEDIAN * NORMAL * self.spread / math.sqrt(self.steps)

    @property
    def own_error(self) -> Measured:
        """Error of the calibrated prediction for the measured layout."""
        off = abs(self.error_after)
        return Measured(self.workload, off + self.spread, off + NINE_OF_TEN * NORMAL * self.spread)

    def corrects(self, constants: TimingConstants) -> bool:
        """Return True if the calibration was measured against these constants."""
        return self.constants == rates_digest(constants)


def choose_steps(starts: Sequence[Sequence[float]], warm_up: int = WARM_UP) -> Chosen:
    """Select steps from the times after each start, without warm-up steps and outliers."""
    early = 0
    kept: list[float] = []
    for times in starts:
        skipped = min(warm_up, len(times))
        early += skipped
        kept.extend(times[skipped:])
    if not kept:
        return Chosen((), early, 0)
    middle = median(kept)
    deviation = median(abs(time - middle) for time in kept)
    limit = max(OUTLIER * deviation, ALIKE * middle)
    near = tuple(time for time in kept if abs(time - middle) <= limit)
    return Chosen(near, early, len(kept) - len(near))


def factor(ratios: Sequence[float]) -> float:
    """Return the median of measured over predicted times, shrunk towards 1 if they disagree.

    The shrinkage is Bayesian: the prior is a factor within `SURPRISE` of 1, and the evidence is
    the spread of the ratios. Step times in one run hardly differ.
    """
    logs = [math.log(ratio) for ratio in ratios]
    middle = median(logs)
    spread = NORMAL * median(abs(value - middle) for value in logs)
    weight = SURPRISE**2 / (SURPRISE**2 + spread**2 / len(logs))
    return math.exp(weight * middle)


def rates_digest(constants: TimingConstants) -> str:
    """Return the digest of the rates that a factor corrects."""
    rates = (constants.rates, constants.expert_rates, constants.shapes)
    return digest(to_jsonable_python(rates))


def calibrate(
    predicted: float,
    chosen: Chosen,
    measured_on: Mapping[str, str],
    constants: TimingConstants,
    workload: str = "",
) -> Calibration:
    """Return the calibration from the steps; raise if they cannot belong to this run."""
    if len(chosen.seconds) < FEWEST:
        left = f" (without {chosen.warm_up} warm-up steps and {chosen.outliers} outliers)"
        raise UsageError(
            f"a calibration needs at least {FEWEST} steps, but the run has "
            f"{len(chosen.seconds)}{left}. Let the run continue for a few steps and try again."
        )
    measured = median(chosen.seconds)
    spread = median(abs(time / measured - 1) for time in chosen.seconds)
    if spread > NOISIEST:
        raise UsageError(
            f"half of the {len(chosen.seconds)} steps deviate by more than {spread:.0%} from their "
            f"median of {measured:.3g} s; the limit is {NOISIEST:.0%}, because step times in one "
            "layout hardly differ. Find the cause of the slow steps (input, other jobs, a bad "
            "node), or pass only undisturbed steps with --seconds."
        )
    scale = factor([time / predicted for time in chosen.seconds])
    if not 1 / WIDEST <= scale <= WIDEST:
        raise UsageError(
            f"the measured step time is {measured:.3g} s, but the predicted one is {predicted:.3g} "
            "s: too far apart for a calibration. Check that the times are in seconds and that the "
            "spec belongs to this run."
        )
    return Calibration(
        scale=scale,
        measured=measured,
        predicted=predicted,
        steps=len(chosen.seconds),
        warm_up=chosen.warm_up,
        outliers=chosen.outliers,
        spread=spread,
        measured_on=dict(measured_on),
        digest=digest(dict(measured_on)),
        version=constants.version,
        constants=rates_digest(constants),
        workload=workload,
    )


def calibrated(constants: TimingConstants, calibration: Calibration) -> TimingConstants:
    """Return the constants with the factor applied, and the errors that remain.

    The differences between layouts and the error of the factor add up as independent errors.
    """
    left, own = after_calibration(constants, 0.0), calibration.deviation
    return replace(
        left,
        scale=calibration.scale,
        error=math.hypot(left.error, HALF * own),
        expert_error=math.hypot(left.expert_error, HALF * own),
        error_nine_of_ten=math.hypot(left.error_nine_of_ten, NINE_OF_TEN * own),
        expert_error_nine_of_ten=math.hypot(left.expert_error_nine_of_ten, NINE_OF_TEN * own),
        measured=calibration.own_error,
        provenance=f"{constants.provenance}{CALIBRATED}{calibration.steps} steps of this run",
    )


def write_calibration(calibration: Calibration, directory: Path) -> Path:
    """Write a calibration to a run's directory; return the path of the file."""
    target = directory / FILE
    try:
        write_state(target, json.dumps(asdict(calibration), indent=2) + "\n")
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}. Make the spec's directory writable."
        ) from error
    return target


def read_calibration(directory: Path, measured_on: Mapping[str, str]) -> Calibration | None:
    """Return the calibration in a run's directory, or None if there is none for these machines.

    Raise DamagedError if Seatrial did not write the file.
    """
    try:
        found = decode(Calibration, read_json(directory / FILE))
    except FileNotFoundError:
        return None
    if not 1 / WIDEST <= found.scale <= WIDEST:
        raise DamagedError(f"scale is {found.scale:g}")
    if found.steps < FEWEST or found.spread < 0:
        raise DamagedError(f"it has {found.steps} steps and a spread of {found.spread:g}")
    if min(found.measured, found.predicted) <= 0:
        raise DamagedError("one of its steps has a duration of zero")
    return found if found.digest == digest(dict(measured_on)) else None
