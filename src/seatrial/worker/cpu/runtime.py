# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU runtime: everything that lets the engine's own loop train on a CPU, put in place."""

import ctypes
import os
import signal
import sys

from seatrial.worker.cpu.adam import offer_as_apex
from seatrial.worker.cpu.redirection import redirect
from seatrial.worker.replacements import ON_CPU, replace

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""

ENVIRONMENT = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
"""What must be set before torch is loaded: one thread a process, no compilation, and the
engine's own demand for tensor and context parallelism."""


def install() -> None:
    """Make this process ready for the engine on a CPU; before the engine is imported."""
    _end_with_parent()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    redirect()
    offer_as_apex()
    replace(ON_CPU)


def _end_with_parent() -> None:
    """Let the system kill this process when torchrun is killed, so that no rank is left behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
