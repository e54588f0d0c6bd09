# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The checkpoint interval that minimises the time lost to saves and failures."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, expm1, log1p, sqrt


@dataclass(frozen=True, slots=True)
class Losses:
    """The fractions of a run's time that are lost."""

    saving: float
    failures: float
    """Restarts, and work that is repeated after failures."""

    @property
    def total(self) -> float:
        return self.saving + self.failures


def young_interval(save: float, between_failures: float) -> float:
    """Return the seconds of work between saves by Young's first-order rule, sqrt(2 C M).

    J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974).
    """
    return sqrt(2 * save * between_failures)


def daly_interval(save: float, between_failures: float) -> float:
    """Return the seconds of work between saves by Daly's higher-order rule.

    J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
    Future Generation Computer Systems 22 (2006). It is also correct if the save time is not
    negligible. From C = 2 M on, the interval is M.
    """
    if save <= 0:
        return 0.0
    if save >= 2 * between_failures:
        return between_failures
    ratio = save / (2 * between_failures)
    return young_interval(save, between_failures) * (1 + sqrt(ratio) / 3 + ratio / 9) - save


def losses(interval: float, save: float, restart: float, between_failures: float) -> Losses:
    """Return the fractions of time lost with a save after every `interval` seconds of work.

    Failures are a Poisson process and also happen during saves and restarts. The expected time for
    one interval is M e^(R/M) (e^((t + C)/M) - 1), as in Daly's paper.
    """
    if interval <= 0:
        return Losses(1.0, 0.0)
    rate = 1 / between_failures
    exponent = (interval + save) * rate
    # Above this, e^x overflows, and a run would never complete an interval.
    if exponent + restart * rate > MOST_EXPONENT:
        return Losses(0.0, 1.0)
    expected = between_failures * exp(restart * rate) * expm1(exponent)
    return Losses(save / expected, 1 - (interval + save) / expected)


MOST_EXPONENT = 600.0
"""Above this, the expected time overflows, and no work gets done."""


def best_interval(save: float, restart: float, between_failures: float) -> float:
    """Return the exact interval with the least loss, where the derivative of the losses is zero.

    Newton's method solves (1 - t/M) e^((t + C)/M) = 1, starting from Daly's rule. The restart time
    changes the loss but not the best interval.
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
"""Four steps from Daly's rule reach the last digit."""


def steps_between_saves(interval: float, step_seconds: float) -> int:
    """Return the interval in whole steps, at least one."""
    return max(1, round(interval / step_seconds))


DEFAULT_RATE = "llama-3"
"""The default rate: the largest and best documented run."""
SECONDS_PER_HOUR = 3600
HOURS_PER_YEAR = 8760


@dataclass(frozen=True, slots=True)
class FailureRate:
    """The rate of unexpected interruptions in a fleet's jobs."""

    title: str
    """The run or the cluster."""
    interruptions: float
    """Number of unexpected interruptions."""
    gpus: int
    """Number of GPUs."""
    hours: float
    """Observed hours."""
    source: str
    """The publication."""
    note: str = ""
    """Interruptions that the count excludes."""

    @property
    def per_gpu_hour(self) -> float:
        """Interruptions per GPU and hour."""
        return self.interruptions / self.gpus / self.hours

    def between_failures(self, gpus: int) -> float:
        """Return the mean seconds between interruptions of a job with this many GPUs.

        Each interruption is attributed to one GPU, so the rate is proportional to their number.
        """
        return SECONDS_PER_HOUR / (self.per_gpu_hour * gpus)


@cache
def failure_rates() -> dict[str, FailureRate]:
    """Return all published rates by name."""
    text = files("seatrial.planning").joinpath("data", "failures.toml").read_text("utf-8")
    return {name: FailureRate(**facts) for name, facts in tomllib.loads(text).items()}


def rate_of(per_gpu_year: float | None) -> FailureRate:
    """Return the user's failure rate, or the published default."""
    if per_gpu_year is None:
        return failure_rates()[DEFAULT_RATE]
    return FailureRate(
        title="your own machines",
        interruptions=per_gpu_year,
        gpus=1,
        hours=HOURS_PER_YEAR,
        source="cluster.failures_per_gpu_year",
    )
