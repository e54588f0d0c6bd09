# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: LLM Foundry's own `train`, with our event log among its callbacks."""

import os
import sys
from collections.abc import Sequence

from seatrial.worker.environment import ON_CPU, ONE_THREAD, set_variables
from seatrial.worker.node.exporters import serving
from seatrial.worker.process import UNFINISHED, end_with_parent
from seatrial.worker.settings import Device, settings
from seatrial.worker.supervisor.exit_records import telling_end
from seatrial.worker.supervisor.rank import begin_beating, master_address

ENVIRONMENT = {"GIT_PYTHON_REFRESH": "quiet"}
"""LLM Foundry imports GitPython, which raises where there is no git unless it is told not to, and
images of pods rarely have one."""


def main(words: Sequence[str]) -> bool:
    """Prepare the device, then hand over to LLM Foundry; whether the last step was reached."""
    # First of all, so that the supervisor knows of this process while it loads torch.
    heart = begin_beating()
    chosen = settings()
    on_cpu = chosen.device is Device.CPU
    if on_cpu:
        end_with_parent()
    # Composer's launcher calls the number of a node so, torchrun calls it GROUP_RANK.
    node = {"NODE_RANK": os.environ.get("GROUP_RANK", "0")}
    device = ON_CPU | ONE_THREAD if on_cpu else {}
    set_variables(master_address(), unless_set=ENVIRONMENT | node | device)
    # Before LLM Foundry is imported, which takes a while that somebody may be looking at.
    with serving(chosen):
        from seatrial.worker.llm_foundry.training import train  # noqa: PLC0415

        return train(chosen, list(words), heart)


def main_in_pod(words: Sequence[str]) -> None:
    """Train, with an exit code that tells an early end from a finished run."""
    with telling_end():
        if not main(words):
            sys.stderr.write("seatrial: saved and ended before the last step.\n")
            sys.exit(UNFINISHED)
