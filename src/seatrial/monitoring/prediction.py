# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare a plan with measurements: step time and memory."""

from dataclasses import dataclass, replace

from seatrial.monitoring.metrics import Snapshot
from seatrial.monitoring.utilisation import MfuBasis
from seatrial.planning.memory.breakdown import Memory
from seatrial.planning.timing.breakdown import StepTime


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure, planned and measured."""

    planned: float
    """The value in the plan."""
    error: float
    """The relative error that the plan states."""
    measured: float

    @property
    def difference(self) -> float:
        """How far the measurement is above the plan, as a share of the plan."""
        return self.measured / self.planned - 1

    @property
    def within(self) -> bool:
        """True if the difference is within the error that the plan states."""
        return abs(self.difference) <= self.error


@dataclass(frozen=True, slots=True)
class PlanAgainstRun:
    """A plan and its run; None if not measured."""

    step_seconds: Compared | None
    """Seconds per step: planned, and the median of recent steps."""
    memory: Compared | None
    """Bytes of device memory: the plan's fullest stage, and the most that a rank reserved."""


def compare(time: StepTime, memory: Memory, measured: Snapshot) -> PlanAgainstRun:
    """Compare the measurements with the plan."""
    seconds, held = measured.step_seconds, measured.memory
    fullest = memory.fullest.total
    return PlanAgainstRun(
        Compared(time.total, time.error, seconds) if seconds and time.total > 0 else None,
        Compared(fullest, memory.error, held) if held and fullest > 0 else None,
    )


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimates of a plan."""

    time: StepTime
    memory: Memory
    """Memory of each stage."""
    basis: MfuBasis
    """Tokens and FLOPs of a step."""
    seconds_error: float
    """Relative error of the step time that 90 % of published runs stay within."""

    def against(self, measured: Snapshot) -> PlanAgainstRun:
        """Compare the plan with the measurements; the step time only if it has the same batch."""
        found = compare(self.time, self.memory, measured)
        same = measured.tokens_per_step in (None, self.basis.tokens_per_step)
        return found if same else replace(found, step_seconds=None)
