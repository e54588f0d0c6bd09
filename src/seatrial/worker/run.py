# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: the engine's own `pretrain`, with our model entry and event log."""

import sys

from seatrial.worker import gpu
from seatrial.worker.metrics import serving
from seatrial.worker.settings import Device, settings
from seatrial.worker.supervisor.rank import begin_beating


def main() -> None:
    """Prepare the device, then hand over to the engine."""
    # First of all, so that the supervisor knows of this process while it loads torch.
    heart = begin_beating()
    chosen = settings()
    if chosen.device is Device.CPU:
        # Before the engine is imported: it decides by torch.cuda what it is made of.
        from seatrial.worker.cpu.runtime import install  # noqa: PLC0415

        install()
        if chosen.fault and not chosen.trouble:
            from seatrial.worker import faults  # noqa: PLC0415

            faults.install(faults.Fault(chosen.fault))
    else:
        gpu.prepare(sys.argv)
    # Before the engine is imported, which takes a while that somebody may be looking at.
    with serving(chosen):
        from seatrial.worker.training import train  # noqa: PLC0415

        train(chosen, heart)
