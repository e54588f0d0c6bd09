# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A clock is wrong when most others say so; when none do, all nodes tell."""

import pytest

from seatrial.codes.preflight import PreflightCode
from seatrial.worker.node.preflight import skew_findings


@pytest.mark.parametrize(
    ("clocks", "telling"),
    [
        ([100.0, 103.0], []),
        ([100.0, 100.1, 99.9, 160.0], [3]),
        ([40.0, 100.0, 100.0], [0]),
        # Two groups of equal size: which of them is right, nobody knows.
        ([100.0, 160.0], [0, 1]),
        ([100.0, 100.0, 160.0, 160.0], [0, 1, 2, 3]),
        ([100.0, 160.0, 220.0], [0, 1, 2]),
    ],
)
def test_who_tells_of_a_clock(clocks: list[float], telling: list[int]) -> None:
    found = {rank: skew_findings(clock, clocks) for rank, clock in enumerate(clocks)}
    assert [rank for rank, findings in found.items() if findings] == telling
    assert {each.code for findings in found.values() for each in findings} <= {PreflightCode.CLOCK}


def test_the_skew_is_said_with_its_sign() -> None:
    (late,) = skew_findings(100.0, [100.0, 160.0])
    assert "-60.0 s from another node's" in late.rule
    (early,) = skew_findings(160.0, [100.0, 100.0, 160.0])
    assert "+60.0 s from the clocks of the other nodes" in early.rule
