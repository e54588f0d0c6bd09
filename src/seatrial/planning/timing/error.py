# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How wrong a predicted step time may be, from published runs that were not fitted.

Within the range of the fitted rows it is what the back-test found of held-out rows. Beyond it the
error grows by one factor with every doubling, which the back-test measures too: it fits the smaller
half of a source's runs and predicts the larger ones (`widening` in the data file).
"""

from dataclasses import dataclass, replace

from seatrial.planning.timing.constants import Constants, table
from seatrial.planning.workload import Workload


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


def expected_error(workload: Workload, constants: Constants) -> StepTimeError:
    """The error to expect of what `step_time` says of a workload with these constants."""
    trust = constants.trust_for(workload)
    beyond = trust.reach.excess(workload) if trust.reach else ()
    wider = table().widening ** sum(excess.doublings for excess in beyond)
    return StepTimeError(
        median=trust.error * wider,
        nine_of_ten=max(trust.error, trust.nine_of_ten) * wider,
        beyond=tuple(excess.words for excess in beyond),
    )


def after_calibration(constants: Constants, spread: float) -> Constants:
    """Constants with the errors that remain after a calibration on steps that spread so much.

    No more than a source has that was held out and calibrated on five of its rows, and no less than
    the steps themselves differ. The factor itself is for the caller to set.
    """
    known = table()
    return replace(
        constants,
        error=max(min(constants.error, known.calibrated_error), spread),
        error_nine_of_ten=max(
            min(constants.error_nine_of_ten, known.calibrated_error_nine_of_ten), spread
        ),
        expert_error=max(min(constants.expert_error, known.calibrated_error), spread),
        expert_error_nine_of_ten=max(
            min(constants.expert_error_nine_of_ten, known.calibrated_error_nine_of_ten), spread
        ),
    )
