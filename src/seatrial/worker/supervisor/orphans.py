# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Processes whose rank is gone.

A rank starts processes that write checkpoints or load data. When it is killed they go on, and
become children of the supervisor, which has asked the system for that.
"""

import os
from collections.abc import Collection
from contextlib import suppress

from seatrial.monitoring.processes import begun, children, end, state, variables
from seatrial.worker.supervisor.beats import Beat

RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"
"""What torchrun tells its ranks, and nobody else."""


class Orphans:
    """Finds them among this process's children."""

    def __init__(self, agent: int) -> None:
        """Know the one child that was started here."""
        self._agent = agent

    def end_those_without(self, beats: list[Beat], alive: Collection[int]) -> None:
        """End every process whose rank is gone, and take note of those that have ended.

        The number of restarts tells starts apart only on the node where a rank died: on the others
        torchrun does not count. So what began before the present process of its rank goes.
        """
        ranks = {b.rank: begun(b.process) for b in beats if b.process in alive}
        for process in children(os.getpid()):
            if process == self._agent:
                continue
            if not state(process):
                with suppress(ChildProcessError):
                    os.waitpid(process, os.WNOHANG)
                continue
            told = variables(process)
            if RESTART_COUNT not in told:
                # Started by the supervisor itself; an operator may call a node's number RANK.
                continue
            with suppress(KeyError, ValueError):
                rank = int(told["RANK"])
                if rank not in ranks or begun(process) < ranks[rank]:
                    end(process)

    def reap(self) -> None:
        """Take note of all that have ended."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
