# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for anomalies in a run."""

from enum import StrEnum


class AnomalyCode(StrEnum):
    """Anomalies in a run while it is training."""

    NOT_A_NUMBER = "ST-WATCH-001"
    """The loss or gradient norm is NaN or infinite, or the engine rejected it."""
    LOSS_SPIKE = "ST-WATCH-002"
    """The loss spiked above its recent values."""
    GRADIENT_EXPLOSION = "ST-WATCH-003"
    """The gradient norm is many times larger than its recent values."""
    THROUGHPUT_DROP = "ST-WATCH-004"
    """Steps take longer than before."""
    STRAGGLER = "ST-WATCH-005"
    """One rank is a straggler: the other ranks wait for it in every step."""
    STALLED = "ST-WATCH-006"
    """The run has made no progress for longer than a step may take."""
    NETWORK_FALLBACK = "ST-WATCH-007"
    """NCCL uses TCP sockets, although the plan has a faster fabric."""
    SLOW_SAVE = "ST-WATCH-008"
    """Saving a checkpoint takes longer than planned, or longer than before."""
    SLOW_DATA = "ST-WATCH-009"
    """Ranks wait for training data."""
    GPU_ERROR = "ST-WATCH-010"
    """A GPU reports an Xid error or new uncorrectable ECC errors."""
    GPU_THROTTLED = "ST-WATCH-011"
    """A GPU is throttled by its hardware: temperature, power or a slowdown signal."""
