# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU runtime: everything that lets the engine's own loop train on a CPU, put in place."""

import os

from seatrial.worker.cpu.adam import offer_as_apex
from seatrial.worker.cpu.redirection import redirect
from seatrial.worker.ending import end_with_parent
from seatrial.worker.replacements import ON_CPU, replace

ENVIRONMENT = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
"""What must be set before torch is loaded: one thread a process, no compilation, and the
engine's own demand for tensor and context parallelism."""


def install() -> None:
    """Make this process ready for the engine on a CPU; before the engine is imported."""
    end_with_parent()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    redirect()
    offer_as_apex()
    replace(ON_CPU)
