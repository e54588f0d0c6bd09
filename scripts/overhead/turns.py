# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run one of two entries in turns with the other: a few steps, then the other's few steps.

    turns.py READ-FD WRITE-FD TIMES-FILE STEPS-A-TURN ENTRY [ARGUMENTS]

The speed of a virtual machine drifts by tens of per cent within minutes, far more than what is to
be measured, and one core may be slower than another. Two processes that take turns on one core see
the same drift. The turn passes at the optimizer's step, which both entries take from the CPU
runtime, so a turn is whole rounds of the engine's loop.
"""

import os
import runpy
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from seatrial.worker.cpu import adam

read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
times_file = Path(sys.argv[3])
steps_a_turn = int(sys.argv[4])
entry = sys.argv[5]
sys.argv = sys.argv[5:]

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
original = adam.FusedAdam.step
steps = 0
began = 0.0
times: list[str] = []


def step(self: Any, closure: Any = None) -> Any:
    """Take the optimizer's step; before every few, note the time and let the other run."""
    global steps, began
    if steps % steps_a_turn == 0:
        if steps:
            times.append(str(1000 * (time.perf_counter() - began) / steps_a_turn))
            with suppress(BrokenPipeError):
                os.write(write_fd, b".")
        os.read(read_fd, 1)
        began = time.perf_counter()
    steps += 1
    return original(self, closure)


adam.FusedAdam.step = step  # type: ignore[method-assign]
try:
    if entry.endswith(".py"):
        runpy.run_path(entry, run_name="__main__")
    else:
        runpy.run_module(entry, run_name="__main__", alter_sys=True)
finally:
    times_file.write_text("\n".join(times))
    os.close(write_fd)
