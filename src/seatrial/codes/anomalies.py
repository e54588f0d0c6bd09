# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which anomalies of a running run report."""

from enum import StrEnum


class AnomalyCode(StrEnum):
    """What can be seen going wrong while a run trains; the codes are stable."""

    NOT_A_NUMBER = "ST-WATCH-001"
    """A loss or a gradient norm is no number, or the engine has refused one."""
    LOSS_SPIKE = "ST-WATCH-002"
    """The loss has jumped above what it was of late."""
    GRADIENT_EXPLOSION = "ST-WATCH-003"
    """The gradient norm is many times what it was of late."""
    THROUGHPUT_DROP = "ST-WATCH-004"
    """Steps take longer than they did."""
    STRAGGLER = "ST-WATCH-005"
    """One rank is slower than the others, who wait for it in every step."""
    STALLED = "ST-WATCH-006"
    """Nothing has happened for longer than a step may take."""
    NETWORK_FALLBACK = "ST-WATCH-007"
    """NCCL talks through TCP sockets where the plan has a faster fabric."""
    SLOW_SAVE = "ST-WATCH-008"
    """Checkpoints take longer to write than planned, or than they did."""
    SLOW_DATA = "ST-WATCH-009"
    """Ranks wait for training data."""
