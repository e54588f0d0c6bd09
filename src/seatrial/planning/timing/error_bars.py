# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The error of a predicted step time, from published runs that were not fitted.

Within the range of the fitted rows, it is the error of held-out rows in the back-test. Outside the
range, the error grows by a constant factor per doubling. The back-test measures this factor too: it
fits the smaller half of a source's runs and predicts the larger half (`widening` in the data file).
"""

from dataclasses import dataclass, replace

from pydantic_core import to_jsonable_python

from seatrial.hashing import digest
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.options import Options
from seatrial.planning.timing.constants import TimingConstants, table
from seatrial.planning.timing.option_effects import ASSUMED, fitted_options, without_data
from seatrial.planning.timing.step_time import step_time
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding

NEGLIGIBLE = 0.001
"""A relative change in time that is not reported."""


@dataclass(frozen=True, slots=True)
class StepTimeError:
    """The expected error of one predicted step time."""

    median: float
    """Median relative error."""
    nine_of_ten: float
    """Relative error of nine of ten runs; at least the median."""
    beyond: tuple[str, ...]
    """Values outside the fitted range, such as `16,384 GPUs, fitted up to 8,192`. Both errors
    already include the extrapolation. Empty inside the range."""
    is_measured: bool = False
    """True if the error is the deviation of measured steps of this workload."""


def expected_error(workload: Workload, constants: TimingConstants) -> StepTimeError:
    """Return the expected error of `step_time` for a workload with these constants."""
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
    """Return True if the constants were calibrated with steps of this workload."""
    own = constants.measured
    return own is not None and own.workload == workload_digest(workload)


def workload_digest(workload: Workload) -> str:
    """Return the digest of a workload."""
    content = to_jsonable_python(workload)
    # Sets are not ordered.
    content["recompute_modules"] = sorted(content["recompute_modules"])
    if workload.options is None:
        del content["options"]
    # Calibrations were kept before there was another optimizer, and before custom layouts.
    if not workload.muon_steps:
        del content["muon_steps"]
    for stage in content["stages"]:
        if stage["mtp"] is None:
            del stage["mtp"]
    return digest(content)


def after_calibration(constants: TimingConstants, spread: float) -> TimingConstants:
    """Return the constants with the errors that other layouts have after a calibration.

    These are the errors of a held-out source that was calibrated with five of its rows, or those of
    the constants if their nine-of-ten error is smaller, but at least the spread of the steps. The
    caller sets the factor.
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
    """Return the smaller errors: those of the constants, or of calibrated sources."""
    known = table()
    if max(error, nine_of_ten) <= known.calibrated_error_nine_of_ten:
        return error, nine_of_ten
    return known.calibrated_error, known.calibrated_error_nine_of_ten


def _with_options(
    error: StepTimeError, workload: Workload, constants: TimingConstants
) -> StepTimeError:
    """Return the error, with the whole change due to options whose effect no fitted run shows."""
    names, options = without_data(workload), workload.options
    if not names or options is None:
        return error
    fitted = fitted_options(workload)
    known = replace(options, **{name: getattr(fitted, name) for name in names})
    time = step_time(workload, constants).total
    change = abs(time - step_time(replace(workload, options=known), constants).total) / time
    if change < NEGLIGIBLE:
        return error
    listed = " and ".join(_in_words(name, options) for name in names)
    size = f"whose effect of {100 * change:.1f} %"
    shown = "no published run shows"
    if not ASSUMED.isdisjoint(names):
        shown = f"is assumed: {shown} it"
    words = f"{listed}, {size} {shown}"
    return StepTimeError(error.median + change, error.nine_of_ten + change, (*error.beyond, words))


def _in_words(name: str, options: Options) -> str:
    """Return the value of an option: `fused loss off`, `activations of 4 layers on the host`."""
    if options.is_on(name):
        return options.in_words(name)
    return f"{name.replace('_', ' ')} off"


def time_error(
    workload: Workload, constants: TimingConstants, limits: EngineLimits
) -> StepTimeError:
    """Return the expected error of a step time; FSDP with few fitted runs counts as unseen."""
    found = expected_error(workload, constants)
    if is_measured(workload, constants):
        return found
    found = _with_options(found, workload, constants)
    if workload.sharding is not Sharding.FSDP or limits.has_fsdp_runs:
        return found
    known = table()
    return StepTimeError(
        max(found.median, known.unseen_error),
        max(found.nine_of_ten, known.unseen_error_nine_of_ten),
        (*found.beyond, f"FSDP, which few of the fitted {workload.stack} runs have"),
    )
