# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a rank sets up for its supervisor before it loads torch: heartbeat, parent-death signal."""

import os
from pathlib import Path

from seatrial.worker.process import end_with_parent, let_look
from seatrial.worker.supervisor.agent import MASTER
from seatrial.worker.supervisor.heartbeats import DIRECTORY, BeatWriter, beat_file

SUPERVISOR = "SEATRIAL_SUPERVISOR"
"""The variable that contains the supervisor's process ID."""


def start_heartbeat() -> BeatWriter:
    """Start this process's heartbeat. Without a supervisor, no heartbeat is written.

    Under a different agent, such as HyperPod's, a process must not exit with its parent: the parent
    thread may exit earlier.
    """
    rank = int(os.environ.get("RANK", "0"))
    supervisor, directory = os.environ.get(SUPERVISOR), os.environ.get(DIRECTORY)
    if not supervisor or not directory:
        return BeatWriter(None, rank)
    end_with_parent()
    let_look(int(supervisor))
    path = beat_file(Path(directory), int(os.environ.get("LOCAL_RANK", "0")))
    return BeatWriter(path, rank, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))


def master_address() -> dict[str, str]:
    """Return the variable with the address of rank 0; empty without a supervisor.

    torchrun sets this variable to the name by which it numbers nodes (see Rendezvous.words).
    """
    if not os.environ.get(SUPERVISOR) or not os.environ.get(DIRECTORY):
        return {}
    return {"MASTER_ADDR": os.environ.get(MASTER, os.environ.get("MASTER_ADDR", ""))}
