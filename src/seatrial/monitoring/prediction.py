# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the plan said beside what happened: step time and memory."""

from dataclasses import dataclass

from seatrial.monitoring.metrics import Snapshot
from seatrial.monitoring.utilisation import MfuBasis
from seatrial.planning.memory.breakdown import Memory
from seatrial.planning.timing.breakdown import StepTime


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure, planned and measured."""

    planned: float
    """What the plan said."""
    error: float
    """The relative error that the plan stated with it."""
    measured: float

    @property
    def difference(self) -> float:
        """How much more was measured, as a share of what was planned."""
        return self.measured / self.planned - 1

    @property
    def within(self) -> bool:
        """Whether that is no more than the plan's own error."""
        return abs(self.difference) <= self.error


@dataclass(frozen=True, slots=True)
class PlanAgainstRun:
    """A plan beside its run; what was not measured is none."""

    step_seconds: Compared | None
    """Seconds of a step: the plan's, and the median of recent steps."""
    memory: Compared | None
    """Bytes of device memory: the plan's fullest stage, and the most that a rank has reserved."""


def compare(time: StepTime, memory: Memory, measured: Snapshot) -> PlanAgainstRun:
    """Put what was measured beside what was planned."""
    seconds, held = measured.step_seconds, measured.memory
    fullest = memory.fullest.total
    return PlanAgainstRun(
        Compared(time.total, time.error, seconds) if seconds and time.total > 0 else None,
        Compared(fullest, memory.error, held) if held and fullest > 0 else None,
    )


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan says of its run."""

    time: StepTime
    memory: Memory
    """Memory of its stages."""
    basis: MfuBasis
    """What a step is worth."""
    seconds_error: float
    """Relative error of the time that nine of ten published runs stay within."""

    def against(self, measured: Snapshot) -> PlanAgainstRun:
        """The plan beside what was measured."""
        return compare(self.time, self.memory, measured)
