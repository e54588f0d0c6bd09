# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU runtime: everything that lets the engine's own loop train on a CPU, put in place."""

import os
import sys

from seatrial.worker.megatron.cpu.adam import offer_as_apex
from seatrial.worker.megatron.cpu.redirection import redirect
from seatrial.worker.megatron.replacements import ON_CPU, replace
from seatrial.worker.process import end_with_parent

ENVIRONMENT = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
"""What must be set before torch is loaded: one thread a process, no compilation, and the
engine's own demand for tensor and context parallelism."""


WANDB = "--wandb-project"
"""The engine's option without which it never uses wandb, though it always loads it."""


def install() -> None:
    """Make this process ready for the engine on a CPU; before the engine is imported."""
    end_with_parent()
    if not any(word.startswith(WANDB) for word in sys.argv):
        # A quarter of the time that a rank takes to start; None makes the import fail, which the
        # engine allows for.
        sys.modules.setdefault("wandb", None)  # type: ignore[arg-type]
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    redirect()
    offer_as_apex()
    replace(ON_CPU)
