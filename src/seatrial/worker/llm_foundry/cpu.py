# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry on CPU: Composer supports this by itself, except for one call to torch.cuda.

Unlike Megatron, Composer checks whether there is a GPU. Only FSDP queries the current device
without this check (composer 0.32.1, distributed/dist_strategy.py); here the query returns the CPU.
"""

import torch

CPU = torch.device("cpu")


def install() -> None:
    """Replace the call in this process."""
    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: CPU
