# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often to save: the interval that loses least time to saves and to failures."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, expm1, log1p, sqrt


@dataclass(frozen=True, slots=True)
class Losses:
    """Where the time of a run goes that is not training, as shares of the whole time."""

    saving: float
    failures: float
    """Work done again after failures, and restarting."""

    @property
    def total(self) -> float:
        return self.saving + self.failures


def young_interval(save: float, between_failures: float) -> float:
    """The seconds of work between saves by Young's first-order rule, sqrt(2 C M).

    J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974).
    """
    return sqrt(2 * save * between_failures)


def daly_interval(save: float, between_failures: float) -> float:
    """The seconds of work between saves by Daly's higher-order rule.

    J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
    Future Generation Computer Systems 22 (2006): it stays right where the time of a save is no
    longer negligible. From C = 2 M on, the interval is M.
    """
    if save <= 0:
        return 0.0
    if save >= 2 * between_failures:
        return between_failures
    ratio = save / (2 * between_failures)
    return young_interval(save, between_failures) * (1 + sqrt(ratio) / 3 + ratio / 9) - save


def losses(interval: float, save: float, restart: float, between_failures: float) -> Losses:
    """The shares of time lost with saves every `interval` seconds of work.

    Failures arrive at random (a Poisson process) at any time, during saves and restarts too:
    the expected time for one interval is M e^(R/M) (e^((t + C)/M) - 1), as in Daly's paper.
    """
    if interval <= 0:
        return Losses(1.0, 0.0)
    rate = 1 / between_failures
    exponent = (interval + save) * rate
    # e^x grows beyond floats where a run would never get through an interval anyway.
    if exponent + restart * rate > MOST_EXPONENT:
        return Losses(0.0, 1.0)
    expected = between_failures * exp(restart * rate) * expm1(exponent)
    return Losses(save / expected, 1 - (interval + save) / expected)


MOST_EXPONENT = 600.0
"""Beyond this the expected time is not a number, and no work gets done."""


def best_interval(save: float, restart: float, between_failures: float) -> float:
    """The interval that loses least, exactly: where the derivative of the losses is zero.

    Daly's rule is the start; Newton's method on (1 - t/M) e^((t + C)/M) = 1 finishes it. The
    restart time changes how much is lost but not where the best interval is.
    """
    if save <= 0:
        return 0.0
    scaled = save / between_failures
    x = daly_interval(save, between_failures) / between_failures
    x = min(max(x, 1e-9), 1 - 1e-9)
    for _ in range(NEWTON_STEPS):
        # log of the equation: log(1 - x) + x + c = 0, whose derivative is -x / (1 - x).
        value = log1p(-x) + x + scaled
        x = min(max(x + value * (1 - x) / x, 1e-9), 1 - 1e-9)
    return x * between_failures


NEWTON_STEPS = 20
"""Far more than the four that reach the last digit from Daly's start."""


def steps_between_saves(interval: float, step_seconds: float) -> int:
    """The same interval in whole steps, at least one."""
    return max(1, round(interval / step_seconds))


DEFAULT_RATE = "llama-3"
"""The largest and best documented run; the others are for comparison."""
SECONDS_PER_HOUR = 3600
HOURS_PER_YEAR = 8760


@dataclass(frozen=True, slots=True)
class FailureRate:
    """How often a fleet's jobs were interrupted without having asked for it."""

    title: str
    """Whose run or cluster it was."""
    interruptions: float
    """Unexpected interruptions that were counted."""
    gpus: int
    """GPUs that they were counted on."""
    hours: float
    """Hours that they were counted over."""
    source: str
    """Where it was read."""
    note: str = ""
    """What the count leaves out."""

    @property
    def per_gpu_hour(self) -> float:
        """Interruptions of one GPU in one hour."""
        return self.interruptions / self.gpus / self.hours

    def between_failures(self, gpus: int) -> float:
        """Mean seconds between interruptions of a job of so many GPUs.

        Each interruption is counted to a GPU, so that the rate grows with their number.
        """
        return SECONDS_PER_HOUR / (self.per_gpu_hour * gpus)


@cache
def failure_rates() -> dict[str, FailureRate]:
    """All published rates by name."""
    text = files("seatrial.planning").joinpath("data", "failures.toml").read_text("utf-8")
    return {name: FailureRate(**facts) for name, facts in tomllib.loads(text).items()}


def rate_of(per_gpu_year: float | None) -> FailureRate:
    """The rate that a run is planned with: the user's own, or the published default."""
    if per_gpu_year is None:
        return failure_rates()[DEFAULT_RATE]
    return FailureRate(
        title="your own machines",
        interruptions=per_gpu_year,
        gpus=1,
        hours=HOURS_PER_YEAR,
        source="cluster.failures_per_gpu_year",
    )
