# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Young and Daly's interval gives at best on fault times that occurred."""

import pytest

from scripts.measure_goodput import Costs, useful


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        # Nothing fails: the start, then steps between saves.
        ([10.0 + 3 * 21 + 5], 65.0),
        # A fault takes what was not saved; the start after it is paid for as well.
        ([10.0 + 2 * 21 + 20, 10.0 + 5], 45.0),
        # One that comes before training began leaves nothing.
        ([4.0, 10.0 + 5], 5.0),
    ],
)
def test_the_ideal_loses_what_is_not_saved(gaps: list[float], seconds: float) -> None:
    costs = Costs(save_seconds=1.0, restart_seconds=10.0, step_seconds=0.1)
    assert useful(costs, 20.0, gaps) == pytest.approx(seconds)


def test_the_interval_is_young_and_dalys() -> None:
    assert Costs(0.6, 10.0, 0.1).interval(120.0) == pytest.approx(12.0)
