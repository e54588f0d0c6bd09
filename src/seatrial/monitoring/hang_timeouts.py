# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How long a run may be silent: the numbers that goodput, the monitor and the supervisor share.

The monitor reports a stall, and the supervisor kills the ranks: its timeouts are never shorter.
"""

STEP_FACTOR = 5.0
STEP_FLOOR = 10.0
"""A step hangs after max(10 s, 5 × what is usual). NVIDIA's resiliency extension has it too
(nvidia-resiliency-ext, fault_tolerance/config.py, safety_factor), and below ten seconds a garbage
collection or a slow disk looks the same."""
SAVE_FLOOR = 600.0
"""Seconds that any save or evaluation may take, and the first and last step: as long as NCCL itself
waits before its watchdog ends the processes."""
SAVE_REPORT_FACTOR = 10.0
SAVE_KILL_FACTOR = 20.0
"""Times the longest save or evaluation so far: first it is reported, then the ranks are killed."""
