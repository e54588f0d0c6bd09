# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: LLM Foundry's `train`, with Seatrial's event log as a callback."""

import os
import sys
from collections.abc import Sequence

from seatrial.worker.environment import ON_CPU, ONE_THREAD, set_variables
from seatrial.worker.node.exporters import serving
from seatrial.worker.process import UNFINISHED, end_with_parent
from seatrial.worker.settings import Device, settings
from seatrial.worker.supervisor.exit_records import recording_exit
from seatrial.worker.supervisor.rank import master_address, start_heartbeat

ENVIRONMENT = {"GIT_PYTHON_REFRESH": "quiet"}
"""LLM Foundry imports GitPython, which by default raises an error without git, and pod images
rarely include git."""


def main(words: Sequence[str]) -> bool:
    """Prepare the device, then call LLM Foundry. Return True if the last step was reached."""
    # Start the heartbeat first, so that the supervisor sees this process while it loads torch.
    heart = start_heartbeat()
    chosen = settings()
    on_cpu = chosen.device is Device.CPU
    if on_cpu:
        end_with_parent()
    # Composer's launcher uses this variable for the node's number; torchrun uses GROUP_RANK.
    node = {"NODE_RANK": os.environ.get("GROUP_RANK", "0")}
    device = ON_CPU | ONE_THREAD if on_cpu else {}
    set_variables(master_address(), unless_set=ENVIRONMENT | node | device)
    # Do this before importing LLM Foundry, which takes a while.
    with serving(chosen):
        from seatrial.worker.llm_foundry.training import train  # noqa: PLC0415

        return train(chosen, list(words), heart)


def main_in_pod(words: Sequence[str]) -> None:
    """Train, with an exit code that distinguishes an early exit from a finished run."""
    with recording_exit():
        if not main(words):
            sys.stderr.write("seatrial: saved a checkpoint and stopped before the last step.\n")
            sys.exit(UNFINISHED)
