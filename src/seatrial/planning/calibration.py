# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calibration: one factor between predicted and measured step time, from a few steps of one's own.

The factor stands for what the published runs cannot know: this cluster's clocks, cooling, network
and software release. It is kept with the digest of what it was measured on, so that it is not used
for other machines.
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
from seatrial.planning.timing.constants import Measured, TimingConstants
from seatrial.planning.timing.error_bars import after_calibration
from seatrial.storage.state_files import DamagedError, decode, read_json, write_state

FILE = "calibration.json"
"""Name of the file, in the run's directory beside the spec."""
FEWEST = 3
"""Steps that a calibration needs after those that do not count are left out."""
WARM_UP = 2
"""Steps after a start that are slow for other reasons: compiling, allocating, connecting."""
OUTLIER = 5.0
"""Multiples of the median deviation beyond which a step is an outlier."""
ALIKE = 0.02
"""Relative difference below which steps are alike, however closely the others agree."""
SURPRISE = 0.15
"""How far from 1 a factor is expected, relatively: the error on machines that were never seen."""
NORMAL = 1.4826
"""Standard deviation over median deviation, of a normal distribution."""
NINE_OF_TEN, HALF = 1.645, 0.6745
"""Standard deviations within which nine of ten values of a normal distribution lie, and half."""
OF_MEDIAN = 1.2533
"""Standard error of a median over that of a mean, of a normal distribution: sqrt(pi / 2)."""
NOISIEST = 0.1
"""Median deviation of steps beyond which they are no measurement of one layout.

Steps of a healthy run differ by a per cent or two. Where half of them are further than this from
their median, something else sets their time (stalls of the input, other jobs, a bad node), and a
factor would carry it into every plan.
"""
WIDEST = 20.0
"""A factor beyond this, or below its inverse, is a mistake rather than a calibration."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The steps that count, and how many do not."""

    seconds: tuple[float, ...]
    """Times of the steps that count."""
    warm_up: int
    """Steps left out because they came right after a start."""
    outliers: int
    """Steps left out because they took much longer, or much less, than the others."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """One factor between predicted and measured time, and where it comes from."""

    scale: float
    """Measured over predicted time."""
    measured: float
    """Median time of the steps that count, seconds."""
    predicted: float
    """Time that was predicted without calibration, seconds."""
    steps: int
    warm_up: int
    """Steps left out because they came right after a start."""
    outliers: int
    """Steps left out because they took much longer, or much less, than the others."""
    spread: float
    """Median relative deviation of the steps that count from their median."""
    measured_on: Mapping[str, str]
    """What it was measured on: accelerator, node type, engine, precision."""
    digest: str
    """Digest of what it was measured on."""
    version: str
    """Version of the constants that predicted."""
    constants: str = ""
    """Digest of the rates that predicted: the factor corrects these and no others."""
    workload: str = ""
    """Digest of the workload that was measured."""

    @property
    def error_before(self) -> float:
        """Relative error of the prediction without calibration."""
        return self.predicted / self.measured - 1

    @property
    def error_after(self) -> float:
        """Relative error of the prediction with it: steps that disagree draw the factor to 1."""
        return self.scale * self.predicted / self.measured - 1

    @property
    def deviation(self) -> float:
        """How far the factor itself may be off, relatively: its standard error."""
        return OF_MEDIAN * NORMAL * self.spread / math.sqrt(self.steps)

    @property
    def own_error(self) -> Measured:
        """How far steps of the layout that was measured are from what is now said of them."""
        off = abs(self.error_after)
        return Measured(self.workload, off + self.spread, off + NINE_OF_TEN * NORMAL * self.spread)

    def corrects(self, constants: TimingConstants) -> bool:
        """Whether it was measured against these constants."""
        return self.constants == rates_digest(constants)


def choose_steps(starts: Sequence[Sequence[float]], warm_up: int = WARM_UP) -> Chosen:
    """The steps that count, of the times of the steps after each start, in order.

    Left out are the first of each start, as long as enough remain, and outliers.
    """
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
    """One factor for measured over predicted times: their median, and nearer to 1 if they disagree.

    How far it is drawn to 1 is what Bayes says of a factor that is expected within `SURPRISE` of
    it, and is seen through ratios that spread as these do. Steps of one run hardly differ.
    """
    logs = [math.log(ratio) for ratio in ratios]
    middle = median(logs)
    spread = NORMAL * median(abs(value - middle) for value in logs)
    weight = SURPRISE**2 / (SURPRISE**2 + spread**2 / len(logs))
    return math.exp(weight * middle)


def rates_digest(constants: TimingConstants) -> str:
    """The digest of what a factor corrects."""
    rates = (constants.rates, constants.expert_rates, constants.shapes)
    return digest(to_jsonable_python(rates))


def calibrate(
    predicted: float,
    chosen: Chosen,
    measured_on: Mapping[str, str],
    constants: TimingConstants,
    workload: str = "",
) -> Calibration:
    """The calibration that the steps yield; refused where they cannot be this run's."""
    if len(chosen.seconds) < FEWEST:
        left = f" ({chosen.warm_up} after a start and {chosen.outliers} outliers do not count)"
        raise UsageError(
            f"a calibration needs {FEWEST} steps that count, and there are "
            f"{len(chosen.seconds)}{left}. Let the run go on for a few steps and try again."
        )
    measured = median(chosen.seconds)
    spread = median(abs(time / measured - 1) for time in chosen.seconds)
    if spread > NOISIEST:
        raise UsageError(
            f"half of the {len(chosen.seconds)} steps are more than {spread:.0%} from their median "
            f"of {measured:.3g} s; a calibration takes at most {NOISIEST:.0%}, because steps of "
            "one layout hardly differ. Find what slows some of them down (input, other jobs, a bad "
            "node), or give only steps of a quiet stretch with --seconds."
        )
    scale = factor([time / predicted for time in chosen.seconds])
    if not 1 / WIDEST <= scale <= WIDEST:
        raise UsageError(
            f"a step took {measured:.3g} s, and {predicted:.3g} s are predicted: too far apart for "
            "a calibration. Check that the times are seconds and that the spec is this run's."
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
    """Constants with the factor applied, and the errors that remain after a calibration.

    What layouts differ by after a calibration, and what the factor itself may be off by, add up as
    independent errors do.
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
        provenance=f"{constants.provenance}; calibrated on {calibration.steps} steps of this run",
    )


def write_calibration(calibration: Calibration, directory: Path) -> Path:
    """Keep a calibration in a run's directory; the path of the file."""
    target = directory / FILE
    try:
        write_state(target, json.dumps(asdict(calibration), indent=2) + "\n")
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}. Make room for it beside the spec."
        ) from error
    return target


def read_calibration(directory: Path, measured_on: Mapping[str, str]) -> Calibration | None:
    """The calibration in a run's directory; None if there is none for these machines.

    Raises DamagedError if the file is not a calibration that Seatrial wrote.
    """
    try:
        found = decode(Calibration, read_json(directory / FILE))
    except FileNotFoundError:
        return None
    if not 1 / WIDEST <= found.scale <= WIDEST:
        raise DamagedError(f"scale is {found.scale:g}")
    if found.steps < FEWEST or found.spread < 0:
        raise DamagedError(f"it is of {found.steps} steps with a spread of {found.spread:g}")
    if min(found.measured, found.predicted) <= 0:
        raise DamagedError("a step of it takes no time")
    return found if found.digest == digest(dict(measured_on)) else None
