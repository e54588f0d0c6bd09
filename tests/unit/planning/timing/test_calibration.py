# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import json
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
    found = calibrate(8.0, choose_steps([[9.9, 10.0, 10.3]], 0), MACHINES, "1")
    assert found.scale == pytest.approx(1.25, rel=2e-3)
    assert found.error_before == pytest.approx(-0.2)
    assert found.spread == pytest.approx(0.01)


def test_a_factor_on_which_measurements_disagree_is_drawn_to_one() -> None:
    assert factor([1.2, 1.2, 1.2]) == pytest.approx(1.2)
    assert 1.01 < factor([0.5, 0.8, 1.2, 2.0, 3.2]) < 1.1


def test_too_few_steps_are_refused_with_what_was_left_out() -> None:
    with pytest.raises(UsageError, match=r"3 steps that count, and there are 1 .*2 after a start"):
        calibrate(8.0, choose_steps([[30.0, 14.0, 10.0]]), MACHINES, "1")


def test_milliseconds_are_not_taken_for_seconds() -> None:
    with pytest.raises(UsageError, match="seconds"):
        calibrate(8.0, choose_steps([[10000.0, 10001.0, 10002.0]], 0), MACHINES, "1")


def test_it_is_read_back_only_for_the_machines_that_it_was_measured_on(tmp_path: Path) -> None:
    found = calibrate(8.0, choose_steps([[10.0, 10.0, 10.0]], 0), MACHINES, "1")
    write_calibration(found, tmp_path / "run")
    assert read_calibration(tmp_path / "run", MACHINES) == found
    assert read_calibration(tmp_path / "run", MACHINES | {"accelerator": "h100-80gb"}) is None
    assert read_calibration(tmp_path, MACHINES) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"scale": 1}'])
def test_a_file_that_seatrial_did_not_write_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(UsageError, match="calibrate again"):
        read_calibration(tmp_path, MACHINES)


def test_a_file_with_an_absurd_factor_is_refused(tmp_path: Path) -> None:
    found = calibrate(8.0, choose_steps([[10.0, 10.0, 10.0]], 0), MACHINES, "1")
    file = write_calibration(found, tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"scale": 1000.0}))
    with pytest.raises(UsageError, match="calibrate again"):
        read_calibration(tmp_path, MACHINES)


def test_calibrated_constants_scale_and_say_so() -> None:
    found = calibrate(8.0, choose_steps([[10.0, 10.0, 10.0]], 0), MACHINES, "1")
    after = calibrated(CONSTANTS, found)
    assert after.scale == pytest.approx(1.25)
    assert after.error <= CONSTANTS.error
    assert "calibrated on 3 steps" in after.provenance
