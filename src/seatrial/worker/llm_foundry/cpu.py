# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry on a CPU: Composer trains there by itself, but for one question to torch.cuda.

Unlike Megatron it asks whether there is a GPU and goes by the answer. Only FSDP asks for the
current device before (composer 0.32.1, distributed/dist_strategy.py), and gets the CPU.
"""

import torch

CPU = torch.device("cpu")


def install() -> None:
    """Make this process ready."""
    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: CPU
