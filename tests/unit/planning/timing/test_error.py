# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.layout import Layout
from seatrial.planning.timing.constants import (
    Measured,
    Reach,
    TimingConstants,
    constants_for,
    reach_of,
    table,
)
from seatrial.planning.timing.error_bars import (
    after_calibration,
    expected_error,
    time_error,
    workload_digest,
)
from seatrial.planning.timing.rates import Rates
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import Precision
from tests.unit.planning.timing.workloads import EXPERTS, workload

REACH = Reach(gpus=512, tp_size=8, pp_size=8, cp_size=1, ep_size=1, sequence_length=2048)
CONSTANTS = TimingConstants(
    Rates(), 0.1, "made up", "0", error_nine_of_ten=0.3, reach=REACH, expert_error_nine_of_ten=0.5
)
LIMITS = EngineLimits("made up", True, ((Sharding.FSDP,),), (Recompute.NONE,))
WITHIN = workload(Layout(8, 1, 8, 8))


def test_within_the_fitted_range_the_errors_are_those_of_the_back_test() -> None:
    found = expected_error(WITHIN, CONSTANTS)
    assert (found.median, found.nine_of_ten, found.beyond) == (0.1, 0.3, ())


def test_every_doubling_beyond_the_range_widens_both_errors() -> None:
    once = expected_error(workload(Layout(8, 1, 16, 8)), CONSTANTS)
    twice = expected_error(workload(Layout(8, 1, 16, 16)), CONSTANTS)
    assert once.beyond == ("1,024 GPUs, fitted up to 512",)
    assert twice.beyond == ("2,048 GPUs, fitted up to 512", "pp 16, fitted up to 8")
    assert once.median == pytest.approx(0.1 * table().widening)
    assert once.nine_of_ten == pytest.approx(0.3 * table().widening)
    # Two doublings of the GPUs and one of the stages.
    assert twice.nine_of_ten == pytest.approx(0.3 * table().widening ** 3)


def test_a_longer_sequence_and_another_kind_of_parallelism_are_beyond_too() -> None:
    longer = replace(workload(Layout(8, 2, 4, 8)), sequence_length=8192)
    assert expected_error(longer, CONSTANTS).beyond == (
        "cp 2, fitted up to 1",
        "sequences of 8,192 tokens, fitted up to 2,048",
    )


def test_where_nine_of_ten_is_not_known_the_median_stands_for_it() -> None:
    found = expected_error(WITHIN, TimingConstants(Rates(), 0.1, "made up", "0"))
    assert (found.median, found.nine_of_ten, found.beyond) == (0.1, 0.1, ())


def test_experts_have_a_reach_and_errors_of_their_own() -> None:
    shipped = constants_for("h100-80gb", Precision.BF16, "megatron-core")
    given = workload(Layout(1, 1, 8, 1, ep_size=8), EXPERTS)
    found = expected_error(given, shipped)
    assert found.median == shipped.expert_error
    assert found.nine_of_ten == shipped.expert_error_nine_of_ten > shipped.error_nine_of_ten


def test_what_is_shipped_knows_its_range_and_nine_of_ten_are_wider_than_half() -> None:
    assert table().widening >= 1
    assert table().unseen_error_nine_of_ten > table().unseen_error
    assert table().calibrated_error_nine_of_ten > table().calibrated_error
    for fit in table().fits:
        assert fit.error_nine_of_ten >= fit.error > 0, fit.stack
        reach = fit.reach
        assert reach.gpus >= max(reach.tp_size, reach.pp_size, reach.cp_size, reach.ep_size)


def test_a_hundred_thousand_gpus_are_beyond_what_anybody_published() -> None:
    shipped = constants_for("h100-80gb", Precision.BF16, "megatron-core")
    given = workload(Layout(8, 1, 1600, 8))
    found = expected_error(given, shipped)
    assert any(words.startswith("102,400 GPUs, fitted up to") for words in found.beyond)
    assert found.median > shipped.error


def test_what_is_borrowed_claims_no_more_than_an_unseen_family() -> None:
    borrowed = constants_for("h200-141gb", Precision.FP8, "megatron-core")
    assert borrowed.error >= table().unseen_error
    assert borrowed.error_nine_of_ten >= table().unseen_error_nine_of_ten


def test_a_calibration_narrows_errors_down_to_the_spread_of_its_steps() -> None:
    wide = replace(CONSTANTS, error=0.4, error_nine_of_ten=2.0, expert_error=0.6)
    steady, noisy = after_calibration(wide, 0.001), after_calibration(wide, 0.9)
    assert steady.error == steady.expert_error == table().calibrated_error
    assert steady.error_nine_of_ten == table().calibrated_error_nine_of_ten
    assert noisy.error == noisy.error_nine_of_ten == noisy.expert_error == 0.9
    # An error that is smaller already stays.
    assert after_calibration(replace(CONSTANTS, error=0.01), 0.001).error == 0.01


def test_median_and_nine_of_ten_are_of_the_same_runs() -> None:
    known = table()
    # A wide median with a near nine of ten: the calibrated median would be of other runs.
    near = replace(CONSTANTS, error=known.calibrated_error + 0.1, error_nine_of_ten=0.3)
    after = after_calibration(near, 0.0)
    assert (after.error, after.error_nine_of_ten) == (near.error, 0.3)


def test_the_layout_that_was_measured_has_the_deviation_of_its_steps() -> None:
    own = Measured(workload_digest(WITHIN), 0.002, 0.005)
    constants = replace(CONSTANTS, measured=own)
    found = expected_error(WITHIN, constants)
    assert (found.median, found.nine_of_ten, found.beyond) == (0.002, 0.005, ())
    other = replace(WITHIN, micro_batch_size=2 * WITHIN.micro_batch_size)
    assert expected_error(other, constants).nine_of_ten == 0.3
    shared = replace(WITHIN, sharding=Sharding.FSDP)
    assert time_error(shared, constants, LIMITS).nine_of_ten == table().unseen_error_nine_of_ten
    fitted = replace(LIMITS, has_fsdp_runs=True)
    assert time_error(shared, constants, fitted) == expected_error(shared, constants)
    measured = replace(constants, measured=replace(own, workload=workload_digest(shared)))
    assert time_error(shared, measured, LIMITS).nine_of_ten == 0.005


def test_the_reach_of_workloads_is_the_largest_of_each() -> None:
    found = reach_of([workload(Layout(8, 1, 2, 1)), workload(Layout(1, 1, 4, 8))])
    assert found == Reach(32, 8, 8, 1, 1, 2048)
