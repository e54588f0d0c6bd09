# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry on a CPU: Composer trains there by itself, but for one question to torch.cuda.

Unlike Megatron it asks whether there is a GPU and goes by the answer. Only FSDP asks for the
current device before (composer 0.32.1, distributed/dist_strategy.py), and gets the CPU.
"""

import os

import torch

from seatrial.worker.megatron.cpu.redirection import ANSWERED
from seatrial.worker.process import end_with_parent

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}
"""What must be set before torch computes: one thread a process, no compilation."""


def install() -> None:
    """Make this process ready."""
    end_with_parent()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    torch.set_num_threads(1)
    torch.cuda.current_device = ANSWERED["current_device"]
