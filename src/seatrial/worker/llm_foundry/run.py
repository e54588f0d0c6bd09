# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: LLM Foundry's own `train`, with our event log among its callbacks."""

import os
import sys

from seatrial.worker.node.exporters import serving
from seatrial.worker.settings import Device, settings
from seatrial.worker.supervisor.rank import begin_beating


def main() -> bool:
    """Prepare the device, then hand over to LLM Foundry; whether the last step was reached."""
    # First of all, so that the supervisor knows of this process while it loads torch.
    heart = begin_beating()
    chosen = settings()
    # Composer's launcher calls the number of a node so, torchrun calls it GROUP_RANK.
    os.environ.setdefault("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
    if chosen.device is Device.CPU:
        from seatrial.worker.llm_foundry.cpu import install  # noqa: PLC0415

        install()
    # Before LLM Foundry is imported, which takes a while that somebody may be looking at.
    with serving(chosen):
        from seatrial.worker.llm_foundry.training import train  # noqa: PLC0415

        return train(chosen, sys.argv[1:], heart)
