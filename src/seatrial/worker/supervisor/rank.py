# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a rank does for its supervisor, before it loads torch: it beats, and does not outlive it."""

import os
from pathlib import Path

from seatrial.worker.process import end_with_parent, let_look
from seatrial.worker.supervisor.agent import MASTER
from seatrial.worker.supervisor.heartbeats import DIRECTORY, BeatWriter, beat_file

SUPERVISOR = "SEATRIAL_SUPERVISOR"
"""The variable that tells processes who supervises them."""


def begin_beating() -> BeatWriter:
    """The heartbeat of this process; without a supervisor it is kept nowhere, and nothing is done.

    Under another agent, such as HyperPod's, a process must not end with its parent: it may come
    from a thread that ends before.
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
    """The variable by which the ranks of a supervisor meet; empty without a supervisor.

    torchrun has set it to the name by which it numbers nodes (see Rendezvous.words).
    """
    if not os.environ.get(SUPERVISOR) or not os.environ.get(DIRECTORY):
        return {}
    return {"MASTER_ADDR": os.environ.get(MASTER, os.environ.get("MASTER_ADDR", ""))}
