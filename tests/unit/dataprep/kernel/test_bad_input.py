# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that are broken in 200 ways: no crash, no silent loss, and nothing outside the output."""

from pathlib import Path

from tests.unit.dataprep.mutated_inputs import try_one


def test_no_input_crashes_or_loses_anything(tmp_path: Path) -> None:
    worked = 0
    for seed in range(200):
        folder = tmp_path / str(seed)
        folder.mkdir()
        worked += try_one(seed, folder)
    # Neither all nor none of them fail, or the mutations test nothing.
    assert 60 < worked < 190
