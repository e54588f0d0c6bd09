# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whose clock is wrong: one that differs from what most of a run's processes have."""

from collections.abc import Sequence

from seatrial.findings import Finding
from seatrial.worker.preflight import PreflightCode, finding

LARGEST_SKEW = 5.0
"""Seconds between clocks above which logs cannot be put in order, and tokens of clouds expire."""


def skew_findings(mine: float, clocks: Sequence[float]) -> list[Finding]:
    """What is wrong with this node's clock beside those of all, itself among them.

    Where no more than half agree, as with two nodes, nobody knows who is right. All nodes say so
    then, for a finding that all have excludes none of them.
    """
    middle = sorted(clocks)[len(clocks) // 2]
    agreeing = sum(abs(clock - middle) <= LARGEST_SKEW for clock in clocks)
    fix = "Start the node's time service."
    if 2 * agreeing <= len(clocks):
        skew = max((mine - clock for clock in clocks), key=abs)
        rule = f"the clock is {skew:+.1f} s from another node's, and no majority is right."
        fix = "See the time service of all nodes."
    else:
        skew = mine - middle
        rule = f"the clock is {skew:+.1f} s from those of the other nodes."
        if abs(skew) <= LARGEST_SKEW:
            return []
    return [finding(PreflightCode.CLOCK, rule, fix, round(skew, 3))]
