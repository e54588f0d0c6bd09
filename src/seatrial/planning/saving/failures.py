# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often large runs fail, as published, from `planning/data/failures.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

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
