# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How wrong a predicted step time may be, from published runs that were not fitted.

Within the range of the fitted rows it is what the back-test found of held-out rows. Beyond it the
error grows by one factor with every doubling, which the back-test measures too: it fits the smaller
half of a source's runs and predicts the larger ones (`widening` in the data file).
"""

from dataclasses import dataclass, replace

from pydantic_core import to_jsonable_python

from seatrial.hashing import digest
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.timing.constants import TimingConstants, table
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding


@dataclass(frozen=True, slots=True)
class StepTimeError:
    """The error to expect of one predicted step time."""

    median: float
    """Relative error that half of all runs stay below."""
    nine_of_ten: float
    """Relative error that nine of ten runs stay below; never less than the median."""
    beyond: tuple[str, ...]
    """Where the workload goes beyond what was fitted, as short phrases such as `16,384 GPUs, fitted
    up to 8,192`; the two errors are widened for it already. Empty within the range."""
    is_measured: bool = False
    """Whether it is the deviation of the workload's own steps, rather than of published runs."""


def expected_error(workload: Workload, constants: TimingConstants) -> StepTimeError:
    """The error to expect of what `step_time` says of a workload with these constants."""
    own = constants.measured
    if own is not None and is_measured(workload, constants):
        return StepTimeError(own.error, own.nine_of_ten, (), is_measured=True)
    trust = constants.trust_for(workload)
    beyond = trust.reach.excess(workload) if trust.reach else ()
    wider = table().widening ** sum(excess.doublings for excess in beyond)
    return StepTimeError(
        median=trust.error * wider,
        nine_of_ten=max(trust.error, trust.nine_of_ten) * wider,
        beyond=tuple(excess.words for excess in beyond),
    )


def is_measured(workload: Workload, constants: TimingConstants) -> bool:
    """Whether the constants were calibrated by steps of this very workload."""
    own = constants.measured
    return own is not None and own.workload == workload_digest(workload)


def workload_digest(workload: Workload) -> str:
    """The identity of a workload."""
    content = to_jsonable_python(workload)
    # A set has no order of its own.
    content["recompute_modules"] = sorted(content["recompute_modules"])
    return digest(content)


def after_calibration(constants: TimingConstants, spread: float) -> TimingConstants:
    """Constants with the errors of other layouts after a calibration on steps that spread so much.

    Those of a source that was held out and calibrated on five of its rows, or those of the
    constants where nine of ten are nearer already: median and nine of ten are always of the same
    runs. No less than the steps themselves differ. The factor itself is for the caller to set.
    """
    error, nine = _nearer(constants.error, constants.error_nine_of_ten)
    expert_error, expert_nine = _nearer(constants.expert_error, constants.expert_error_nine_of_ten)
    return replace(
        constants,
        error=max(error, spread),
        error_nine_of_ten=max(nine, spread),
        expert_error=max(expert_error, spread),
        expert_error_nine_of_ten=max(expert_nine, spread),
    )


def _nearer(error: float, nine_of_ten: float) -> tuple[float, float]:
    """Median and nine of ten of the constants, or of calibrated sources where those are nearer."""
    known = table()
    if max(error, nine_of_ten) <= known.calibrated_error_nine_of_ten:
        return error, nine_of_ten
    return known.calibrated_error, known.calibrated_error_nine_of_ten


def time_error(
    workload: Workload, constants: TimingConstants, limits: EngineLimits
) -> StepTimeError:
    """The error to expect of a step's time; of FSDP without fitted runs, that of the unseen."""
    found = expected_error(workload, constants)
    if workload.sharding is not Sharding.FSDP or limits.has_fsdp_runs:
        return found
    if is_measured(workload, constants):
        return found
    known = table()
    return StepTimeError(
        max(found.median, known.unseen_error),
        max(found.nine_of_ten, known.unseen_error_nine_of_ten),
        (*found.beyond, f"fsdp, of which no run with {workload.stack} was fitted"),
    )
