# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.planning.calibration import (
    FILE,
    calibrate,
    calibrated,
    choose_steps,
    factor,
    read_calibration,
    write_calibration,
)
from seatrial.storage.state_files import DamagedError
from tests.unit.planning.timing.workloads import CONSTANTS

MACHINES = {"accelerator": "a100-80gb", "engine": "megatron", "precision": "bf16"}


def test_the_first_steps_of_every_start_and_outliers_do_not_count() -> None:
    chosen = choose_steps([[30.0, 14.0, 10.0, 10.1, 9.9], [25.0, 10.2, 10.0, 19.0, 10.1]])
    assert chosen.warm_up == 4
    assert chosen.outliers == 1
    assert sorted(chosen.seconds) == [9.9, 10.0, 10.0, 10.1, 10.1]


def test_steps_that_agree_to_the_millisecond_have_no_outliers() -> None:
    assert choose_steps([[10.0, 10.0, 10.0, 10.001, 10.1]], warm_up=0).outliers == 0


def test_the_factor_is_the_median_over_the_prediction() -> None:
    found = calibrate(8.0, choose_steps([[9.9, 10.0, 10.3]], 0), MACHINES, CONSTANTS)
    assert found.scale == pytest.approx(1.25, rel=2e-3)
    assert found.error_before == pytest.approx(-0.2)
    assert found.spread == pytest.approx(0.01)


def test_a_factor_on_which_measurements_disagree_is_drawn_to_one() -> None:
    assert factor([1.2, 1.2, 1.2]) == pytest.approx(1.2)
    assert 1.01 < factor([0.5, 0.8, 1.2, 2.0, 3.2]) < 1.1


def test_too_few_steps_are_refused_with_what_was_left_out() -> None:
    with pytest.raises(UsageError, match=r"3 steps, but the run has 1 \(without 2 warm-up steps"):
        calibrate(8.0, choose_steps([[30.0, 14.0, 10.0]]), MACHINES, CONSTANTS)


def test_milliseconds_are_not_taken_for_seconds() -> None:
    with pytest.raises(UsageError, match="seconds"):
        calibrate(8.0, choose_steps([[10000.0, 10001.0, 10002.0]], 0), MACHINES, CONSTANTS)


def test_it_is_read_back_only_for_the_machines_that_it_was_measured_on(tmp_path: Path) -> None:
    found = calibrate(8.0, choose_steps([[10.0, 10.0, 10.0]], 0), MACHINES, CONSTANTS)
    write_calibration(found, tmp_path / "run")
    assert read_calibration(tmp_path / "run", MACHINES) == found
    assert read_calibration(tmp_path / "run", MACHINES | {"accelerator": "h100-80gb"}) is None
    assert read_calibration(tmp_path, MACHINES) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"scale": 1}', "[" * 100_000])
def test_a_file_that_seatrial_did_not_write_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(DamagedError):
        read_calibration(tmp_path, MACHINES)


def test_a_file_with_an_absurd_factor_is_refused(tmp_path: Path) -> None:
    found = calibrate(8.0, choose_steps([[10.0, 10.0, 10.0]], 0), MACHINES, CONSTANTS)
    file = write_calibration(found, tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"scale": 1000.0}))
    with pytest.raises(DamagedError, match="scale is 1000"):
        read_calibration(tmp_path, MACHINES)


def test_calibrated_constants_scale_and_say_so() -> None:
    found = calibrate(8.0, choose_steps([[10.0, 10.0, 10.0]], 0), MACHINES, CONSTANTS)
    after = calibrated(CONSTANTS, found)
    assert after.scale == pytest.approx(1.25)
    assert after.error <= CONSTANTS.error
    assert "calibrated on 3 steps" in after.provenance


def test_steps_that_differ_much_are_refused_with_the_number() -> None:
    quiet = choose_steps([[9.2, 9.4, 10.0, 10.6, 10.8]], 0)
    assert calibrate(8.0, quiet, MACHINES, CONSTANTS).spread == pytest.approx(0.06)
    noisy = choose_steps([[8.0, 8.8, 10.0, 11.2, 12.0]], 0)
    with pytest.raises(UsageError, match=r"more than 12% from their median .* the limit is 10%"):
        calibrate(8.0, noisy, MACHINES, CONSTANTS)


def test_the_error_grows_with_the_spread_of_the_steps() -> None:
    alike = calibrate(8.0, choose_steps([[10.0] * 5], 0), MACHINES, CONSTANTS)
    apart = calibrate(8.0, choose_steps([[9.2, 9.4, 10.0, 10.6, 10.8]], 0), MACHINES, CONSTANTS)
    assert alike.deviation == 0.0
    # The standard error of a median is 1.2533 that of a mean, whose deviation is 1.4826 MAD.
    assert apart.deviation == pytest.approx(1.2533 * 1.4826 * 0.06 / 5**0.5)
    quiet, noisy = (calibrated(CONSTANTS, found) for found in (alike, apart))
    assert noisy.error > quiet.error
    assert noisy.error_nine_of_ten > quiet.error_nine_of_ten
    assert noisy.error_nine_of_ten >= 1.645 * apart.deviation
    # The factor is drawn to 1 where steps disagree, so the prediction is not the measurement.
    assert alike.error_after == pytest.approx(0.0)
    assert apart.error_after < -0.001


def test_it_corrects_the_rates_that_it_was_measured_against_and_no_others() -> None:
    found = calibrate(8.0, choose_steps([[10.0] * 3], 0), MACHINES, CONSTANTS)
    assert found.corrects(CONSTANTS)
    assert found.corrects(replace(CONSTANTS, provenance="other words"))
    assert not found.corrects(
        replace(CONSTANTS, rates=replace(CONSTANTS.rates, matrix=CONSTANTS.rates.matrix * 1.01))
    )
    assert not found.corrects(replace(CONSTANTS, shapes={"1 x 1": 1.1}))
