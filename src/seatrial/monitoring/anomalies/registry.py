# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The detectors that watch a run, in the order in which their codes are numbered."""

from seatrial.monitoring.anomalies import (
    gradient_explosion,
    loss_spike,
    network_fallback,
    not_a_number,
    slow_data,
    slow_save,
    stalled,
    straggler,
    throughput_drop,
)
from seatrial.monitoring.anomalies.detector import Detector, Rule
from seatrial.monitoring.anomalies.expectations import Expectations

RULES: tuple[Rule, ...] = (
    not_a_number.RULE,
    loss_spike.RULE,
    gradient_explosion.RULE,
    throughput_drop.RULE,
    straggler.RULE,
    stalled.RULE,
    network_fallback.RULE,
    slow_save.RULE,
    slow_data.RULE,
)
"""What is watched for."""


def detectors(expected: Expectations) -> tuple[Detector, ...]:
    """Fresh detectors of every kind."""
    return (
        not_a_number.NotANumber(),
        loss_spike.LossSpike(),
        gradient_explosion.GradientExplosion(expected),
        throughput_drop.ThroughputDrop(),
        straggler.Straggler(),
        stalled.Stalled(expected),
        network_fallback.NetworkFallback(expected),
        slow_save.SlowSave(expected),
        slow_data.SlowData(),
    )
