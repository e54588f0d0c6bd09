# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Hang timeouts that goodput, the monitor and the supervisor share.

The monitor reports a stall, and the supervisor kills the ranks, so its timeouts are never shorter.
"""

STEP_FACTOR = 5.0
STEP_FLOOR = 10.0
"""A step counts as hung after max(10 s, 5 × the usual time). NVIDIA's resiliency extension uses the
same factor (nvidia-resiliency-ext, fault_tolerance/config.py, safety_factor). Below ten seconds, a
hang is indistinguishable from a garbage collection or a slow disk."""
USUAL_GROWTH = 4.0
"""The most that a step can grow at once, as a factor, before `STEP_FACTOR` is too small for it."""
SAVE_FLOOR = 600.0
"""Minimum timeout in seconds of saves, evaluations, and the first and last step. It equals
NCCL's timeout, after which NCCL's watchdog kills the processes."""
SAVE_REPORT_FACTOR = 10.0
SAVE_KILL_FACTOR = 20.0
"""Multiples of the longest observed save or evaluation: report first, then kill the ranks."""


def step_factor(growth: float) -> float:
    """Return the factor for a run whose batch grows by a factor at once, and its steps with it."""
    return STEP_FACTOR * max(1.0, growth / USUAL_GROWTH)
